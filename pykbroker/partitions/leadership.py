"""The leadership of a partition, as the metadata of the cluster describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from pykbroker.metadata.image import PartitionImage

RECOVERED = 0
"""LeaderRecoveryState of a partition; RECOVERING (1) follows an unclean election."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Leader, epochs, replicas and in-sync set."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment adds; they are in `replicas`."""
    recovery_state: int = RECOVERED


def leadership_of(image: PartitionImage) -> Leadership:
    return Leadership(
        leader=image.leader,
        leader_epoch=image.leader_epoch,
        partition_epoch=image.partition_epoch,
        replicas=tuple(image.replicas),
        in_sync=tuple(image.in_sync),
        adding=tuple(image.adding),
        recovery_state=image.leader_recovery_state,
    )
