"""Decides UpdateFeatures: validates new feature levels and returns their records."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from pykbroker.controller.decision import Decision
from pykbroker.metadata.features import SUPPORTED_FEATURES
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.metadata.cluster import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Direction(IntEnum):
    """Which way a level may go, as the request for it says."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """A level that a feature is to have from now on."""

    name: str
    level: int
    direction: Direction


def update_features(
    finalized: Mapping[str, int], updates: Sequence[FeatureUpdate]
) -> Decision[Refusal | None]:
    """All of the levels, or none."""
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
        return f"{update.name!r} is no feature of this cluster."
    lowest, highest = SUPPORTED_FEATURES[update.name]
    if not lowest <= update.level <= highest:
        return f"{update.name} can be at level {lowest} to {highest} here, not at {update.level}."
    if update.direction is Direction.UNKNOWN:
        return "The request says neither upgrade nor downgrade."
    if update.level < current and update.direction is Direction.UPGRADE:
        return f"{update.name} is at level {current}; to lower it takes a downgrade."
    if update.level > current and update.direction is not Direction.UPGRADE:
        return f"{update.name} is at level {current}; to raise it takes an upgrade."
    return None
