"""Decides UpdateFeatures: validates new feature levels and returns their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.decision import Decision
from pykbroker.controller_access import UpgradeType
from pykbroker.metadata.features import SUPPORTED_FEATURES
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.cluster import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.controller_access import FeatureUpdate


def update_features(
    finalized: Mapping[str, int], updates: Sequence[FeatureUpdate]
) -> Decision[Refusal | None]:
    """Updates all levels or none."""
    for update in updates:
        reason = refusal_of_update(update, finalized.get(update.name, 0))
        if reason is not None:
            return Decision((), Refusal(ErrorCode.INVALID_UPDATE_VERSION, reason))
    records = tuple(
        FeatureLevelRecord(name=it.name, feature_level=it.level)
        for it in updates
        if it.level != finalized.get(it.name, 0)
    )
    return Decision(records, None)


def refusal_of_update(update: FeatureUpdate, current: int) -> str | None:
    if update.name not in SUPPORTED_FEATURES:
        return f"Feature {update.name!r} is not supported."
    lowest, highest = SUPPORTED_FEATURES[update.name]
    if not lowest <= update.level <= highest:
        return f"{update.name}: level {update.level} is not in the range {lowest} to {highest}."
    if update.upgrade_type is UpgradeType.UNKNOWN:
        return "The request names neither an upgrade nor a downgrade."
    if update.level < current and update.upgrade_type is UpgradeType.UPGRADE:
        return f"{update.name}: level {update.level} is below {current}; request a downgrade."
    if update.level > current and update.upgrade_type is not UpgradeType.UPGRADE:
        return f"{update.name}: level {update.level} is above {current}; request an upgrade."
    return None
