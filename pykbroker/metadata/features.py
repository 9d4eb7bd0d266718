"""Feature levels: those that this node supports and those of a new cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 30
"""4.3-IV0. The level determines the versions of metadata records."""

GROUP_VERSION = "group.version"
GROUP_VERSION_LEVEL = 1
"""Consumer groups of the next-generation protocol (KIP-848)."""

TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSION_LEVEL = 2
"""Each transaction has its own epoch, and leaders add their partitions (KIP-890)."""

SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    "kraft.version": (0, 0),
    GROUP_VERSION: (0, GROUP_VERSION_LEVEL),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LEVEL),
}
"""Lowest and highest level of each feature. Other features are supported at level 0 only."""

CARRIED_FEATURES = {
    "eligible.leader.replicas.version": 1,
    "share.version": 1,
    "streams.version": 1,
}
"""Highest accepted level of features that are not supported, but finalized by Apache Kafka.

Nothing depends on their levels here: a partition with one replica has no other eligible replica,
and share and streams groups are not read.
"""

FEATURES_OF_A_NEW_CLUSTER = {
    METADATA_VERSION: METADATA_VERSION_LEVEL,
    GROUP_VERSION: GROUP_VERSION_LEVEL,
    TRANSACTION_VERSION: TRANSACTION_VERSION_LEVEL,
}
"""Features with a record. kraft.version has no record, so its level is 0."""


def refuse_features(finalized: Mapping[str, int]) -> str | None:
    """Returns the reason if this node does not support the finalized features."""
    for name, level in sorted(finalized.items()):
        lowest, highest = SUPPORTED_FEATURES.get(name, (0, CARRIED_FEATURES.get(name, 0)))
        if not lowest <= level <= highest:
            return (
                f"feature {name} is finalized at level {level}; "
                f"this node supports levels {lowest} to {highest}"
            )
    return None
