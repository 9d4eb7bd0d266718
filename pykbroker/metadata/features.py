"""Feature levels: those that this node supports and those of a new cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
