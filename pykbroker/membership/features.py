"""Compares the features of a cluster with those that this broker serves as a member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.metadata.features import (
    GROUP_VERSION,
    GROUP_VERSION_LEVEL,
    METADATA_VERSION,
    METADATA_VERSION_LEVEL,
    TRANSACTION_VERSION,
    TRANSACTION_VERSION_LEVEL,
)
from pykbroker_protocol.messages.broker_registration import Feature

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

METADATA_VERSION_LEVEL_MIN: Final = 19
"""3.7-IV4, the last level of release 3.7."""

MINIMUM_OF_ZERO_LEVEL: Final = 21
"""3.9-IV0: controllers of older releases reject a range that begins with 0 (KIP-1022)."""

CORDONED_DIRECTORIES_LEVEL: Final = 30
"""4.3-IV0: heartbeats can contain cordoned directories (KIP-1066)."""

SERVED_BY_A_MEMBER: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (METADATA_VERSION_LEVEL_MIN, METADATA_VERSION_LEVEL),
    "kraft.version": (0, 1),
    GROUP_VERSION: (0, GROUP_VERSION_LEVEL),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LEVEL),
    "eligible.leader.replicas.version": (0, 1),
}
"""Lowest and highest level of each feature, as the registration claims them."""


def claimed_features(finalized: Mapping[str, int]) -> list[Feature]:
    """Returns the features of the registration."""
    is_older = finalized.get(METADATA_VERSION, 0) < MINIMUM_OF_ZERO_LEVEL
    return [
        Feature(
            name=name,
            min_supported_version=max(lowest, 1) if is_older else lowest,
            max_supported_version=highest,
        )
        for name, (lowest, highest) in SERVED_BY_A_MEMBER.items()
    ]


def refuse_cluster(finalized: Mapping[str, int], controllers: Iterable[object]) -> str | None:
    """Returns why this broker cannot join, with the command that changes it; None if it can."""
    unserved = {
        name: level
        for name, level in sorted(finalized.items())
        if not is_between(level, SERVED_BY_A_MEMBER.get(name, (0, 0)))
    }
    if not unserved:
        return None
    levels = " and ".join(f"{name} {level}" for name, level in unserved.items())
    controller = next(iter(map(str, controllers)), "HOST:PORT")
    metadata_version = unserved.get(METADATA_VERSION)
    if metadata_version is not None and metadata_version < METADATA_VERSION_LEVEL_MIN:
        change = f"upgrade --feature {METADATA_VERSION}={METADATA_VERSION_LEVEL_MIN}"
    else:
        changes = (
            f"--feature {name}={SERVED_BY_A_MEMBER.get(name, (0, 0))[1]}" for name in unserved
        )
        change = f"downgrade {' '.join(changes)}"
    return (
        f"the cluster has finalized {levels}, which this broker does not serve; "
        f"run kafka-features.sh --bootstrap-controller {controller} {change}"
    )


def is_between(level: int, bounds: tuple[int, int]) -> bool:
    lowest, highest = bounds
    return lowest <= level <= highest
