"""UpdateFeatures: the cluster raises or lowers the level at which it does something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller_access import FeatureUpdate, UpgradeType
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call

DIRECTION_SINCE_VERSION = 1
RESULTS_BELOW_VERSION = 2
UPDATES_MAX = 1000
"""All of them or none: they are decided in one go. A cluster has some ten features."""


async def handle(request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    if len(request.feature_updates) > UPDATES_MAX:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"At most {UPDATES_MAX} features are updated at once.",
        )
    updates = [update_of(it, call.version) for it in request.feature_updates]
    refusal = await call.node.controller.update_features(
        updates, validate_only=request.validate_only
    )
    if refusal is not None:
        return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message)
    if call.version >= RESULTS_BELOW_VERSION:
        return UpdateFeaturesResponse(error_code=ErrorCode.NONE)
    return UpdateFeaturesResponse(
        error_code=ErrorCode.NONE,
        results=[
            UpdatableFeatureResult(feature=it.name, error_code=ErrorCode.NONE) for it in updates
        ],
    )


def update_of(asked: FeatureUpdateKey, version: int) -> FeatureUpdate:
    return FeatureUpdate(
        name=asked.feature,
        level=asked.max_version_level,
        upgrade_type=upgrade_type_of(asked, version),
    )


def upgrade_type_of(asked: FeatureUpdateKey, version: int) -> UpgradeType:
    if version < DIRECTION_SINCE_VERSION:
        return UpgradeType.UNSAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE
    known = asked.upgrade_type in set(UpgradeType)
    return UpgradeType(asked.upgrade_type) if known else UpgradeType.UNKNOWN
