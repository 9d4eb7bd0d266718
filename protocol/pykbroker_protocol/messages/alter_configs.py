"""AlterConfigs: replaces the whole dynamic configuration of topics and brokers.

Served versions: 0-2
     0  first version (KIP-133)
     1  same as 0
     2  flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class AlterableConfig(Message):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class AlterConfigsResource(Message):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: Sequence[AlterableConfig] = array(AlterableConfig, "0+")


class AlterConfigsRequest(Message, api=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    resources: Sequence[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")


class AlterConfigsResourceResponse(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")


class AlterConfigsResponse(Message, api=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    responses: Sequence[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")
