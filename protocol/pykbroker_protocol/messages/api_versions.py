"""ApiVersions: returns the served APIs with their versions and the features of the cluster.

Served versions: 0-4
     0  first version (KIP-35)
     1  adds throttle_time_ms (KIP-124)
     2  responses precede throttling (KIP-219)
     3  flexible; client name and version (KIP-511), features (KIP-584)
     4  a supported feature can have min_version 0 (KAFKA-17011)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ApiVersionsRequest(Message, api=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+", default="", ignorable=True)
    client_software_version: str = string("3+", default="", ignorable=True)


class ApiVersion(Message):
    api_key: int = int16("0+")
    min_version: int = int16("0+")
    max_version: int = int16("0+")


class SupportedFeatureKey(Message):
    name: str = string("3+", default="")
    min_version: int = int16("3+", default=0)
    max_version: int = int16("3+", default=0)


class FinalizedFeatureKey(Message):
    name: str = string("3+", default="")
    max_version_level: int = int16("3+", default=0)
    min_version_level: int = int16("3+", default=0)


class ApiVersionsResponse(Message, api=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    error_code: int = int16("0+")
    api_keys: Sequence[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    supported_features: Sequence[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", tag=0, default=(), ignorable=True
    )
    finalized_features_epoch: int = int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: Sequence[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", tag=2, default=(), ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, default=False, ignorable=True)
