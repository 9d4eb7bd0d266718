"""The features this node is built for, those a new cluster begins with, and how they change."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from pykbroker.controller.decision import Decision
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.metadata.cluster import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 30
"""What Apache Kafka calls 4.3-IV0; it fixes the versions of the records in `records`."""

GROUP_VERSION = "group.version"
GROUP_VERSION_LEVEL = 1
"""Groups of the next-generation protocol (KIP-848)."""

TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSION_LEVEL = 2
"""Each transaction has an epoch of its own, and leaders add their partitions (KIP-890)."""

SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    "kraft.version": (0, 0),
    GROUP_VERSION: (0, GROUP_VERSION_LEVEL),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LEVEL),
}
"""The lowest and the highest level of each; what is not named is supported at level 0 alone."""

CARRIED_FEATURES = {
    "eligible.leader.replicas.version": 1,
    "share.version": 1,
    "streams.version": 1,
}
"""Not served, but a cluster of Apache Kafka that has them can go on here.

Its log keeps their levels, and nothing that is kept here depends on them: where each partition has
one replica, none is eligible beside it, and groups of other kinds are left as they are.
"""

FEATURES_OF_A_NEW_CLUSTER = {
    METADATA_VERSION: METADATA_VERSION_LEVEL,
    GROUP_VERSION: GROUP_VERSION_LEVEL,
    TRANSACTION_VERSION: TRANSACTION_VERSION_LEVEL,
}
"""Those that have a record; the level of kraft.version 0 follows from there being none."""


def refuse_features(finalized: Mapping[str, int]) -> str | None:
    """Why this node cannot work with the metadata of a cluster that has these features."""
    for name, level in sorted(finalized.items()):
        lowest, highest = SUPPORTED_FEATURES.get(name, (0, CARRIED_FEATURES.get(name, 0)))
        if not lowest <= level <= highest:
            return (
                f"the cluster's metadata has {name} at level {level}; "
                f"this node supports {lowest} to {highest}"
            )
    return None


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
