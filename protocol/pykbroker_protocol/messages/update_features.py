"""UpdateFeatures: changes the finalized feature levels of the cluster.

Served versions: 0-2
     0  first version, flexible (KIP-584)
     1  upgrade_type and validate_only (KIP-778)
     2  removes the result of each feature
Limits: Features eligible.leader.replicas, share and streams are not supported.
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


class FeatureUpdateKey(Message):
    feature: str = string("0+")
    max_version_level: int = int16("0+")
    allow_downgrade: bool = boolean("0", default=False)
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesRequest(Message, api=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    timeout_ms: int = int32("0+", default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = array(FeatureUpdateKey, "0+")
    validate_only: bool = boolean("1+", default=False)


class UpdatableFeatureResult(Message):
    feature: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")


class UpdateFeaturesResponse(Message, api=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    results: Sequence[UpdatableFeatureResult] = array(
        UpdatableFeatureResult, "0-1", default=(), ignorable=True
    )
