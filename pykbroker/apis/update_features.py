"""UpdateFeatures: changes finalized feature levels of the cluster."""

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
    from pykbroker_protocol.errors import Refusal

DIRECTION_SINCE_VERSION = 1
RESULTS_BELOW_VERSION = 2
UPDATES_MAX = 1000
"""Updates are applied together or not at all. A cluster has about ten features."""


async def handle(request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    if len(request.feature_updates) > UPDATES_MAX:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"A request can update at most {UPDATES_MAX} features.",
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


def update_of(update: FeatureUpdateKey, version: int) -> FeatureUpdate:
    return FeatureUpdate(
        name=update.feature,
        level=update.max_version_level,
        upgrade_type=upgrade_type_of(update, version),
    )


def upgrade_type_of(update: FeatureUpdateKey, version: int) -> UpgradeType:
    if version < DIRECTION_SINCE_VERSION:
        return UpgradeType.UNSAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    known = update.upgrade_type in set(UpgradeType)
    return UpgradeType(update.upgrade_type) if known else UpgradeType.UNKNOWN


def failed(
    _request: UpdateFeaturesRequest, refusal: Refusal, _call: Call
) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=refusal.code, error_message=refusal.message)
