"""Decides leader, in-sync set and eligible leader replicas of a partition, as KRaft does.

A replica leads only if it is in sync or eligible (KIP-966), unless the topic allows unclean
elections. The in-sync set can become empty while replicas are eligible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.metadata.image import BROKER_RESOURCE, NO_LEADER, TOPIC_RESOURCE
from pykbroker.metadata.replay import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.metadata.topics import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pykbroker.metadata.image import ClusterImage, PartitionImage

CLUSTER_WIDE = ""
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
MIN_IN_SYNC = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"

RECOVERED = 0
RECOVERING = 1

UNASSIGNED_DIRECTORY = bytes(16)
LOST_DIRECTORY = (1).to_bytes(16, "big")
MIGRATING_DIRECTORY = (2).to_bytes(16, "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """Settings of a topic that elections depend on."""

    has_eligible: bool
    """Eligible leader replicas are finalized (KIP-966)."""
    min_in_sync: int
    allows_unclean: bool


class Election(NamedTuple):
    leader: int
    is_unclean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The in-sync set to establish, and the replicas that can lead."""

    in_sync: Sequence[int]
    can_lead: Callable[[int], bool]
    unclean_shutdowns: frozenset[int] = frozenset()
    """Replicas that may have lost records, so they are not eligible."""
    recovery_state: int | None = None


def rules_of(image: ClusterImage, topic: str, replicas: int) -> PartitionRules:
    """Returns the rules of a topic; min.insync.replicas is at most its replication factor."""
    own = image.configurations.get((TOPIC_RESOURCE, topic), {})
    default = image.configurations.get((BROKER_RESOURCE, CLUSTER_WIDE), {})
    minimum = int(own.get(MIN_IN_SYNC) or default.get(MIN_IN_SYNC) or 1)
    unclean = own.get(UNCLEAN_ELECTION) or default.get(UNCLEAN_ELECTION) or "false"
    return PartitionRules(
        has_eligible=image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0,
        min_in_sync=min(minimum, replicas),
        allows_unclean=unclean == "true",
    )


def is_active(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def has_online_directory(image: ClusterImage, partition: PartitionImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    if broker is None or broker_id not in partition.replicas:
        return False
    position = partition.replicas.index(broker_id)
    if position >= len(partition.directories):
        return True
    directory = partition.directories[position]
    return directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY, *broker.directories)


def partition_change(
    partition: PartitionImage, topic_id: bytes, target: Target, rules: PartitionRules
) -> PartitionChangeRecord | None:
    """Returns the record that establishes the target; None if nothing changes."""
    in_sync = tuple(target.in_sync)
    eligible, last_known = _eligible(partition, target, rules)
    election = _elect(partition, in_sync, eligible, target, rules)
    recovery = target.recovery_state
    if election.is_unclean:
        # Records that this leader lacks are lost: the other replicas truncate to its log.
        in_sync, eligible, last_known = (election.leader,), (), ()
        recovery = RECOVERING
    elif election.leader != NO_LEADER and election.leader not in in_sync:
        in_sync = (election.leader,)
        eligible = tuple(it for it in eligible if it != election.leader)
    if rules.has_eligible:
        last_known = _last_known(partition, in_sync, election.leader)
    if not in_sync and not rules.has_eligible:
        in_sync = partition.in_sync  # the last in-sync replica stays, without a leader
    record = PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        isr=None if in_sync == partition.in_sync else in_sync,
        eligible_leader_replicas=None if eligible == partition.eligible else eligible,
        last_known_elr=None if last_known == partition.last_known else last_known,
        leader=NO_LEADER_CHANGE if election.leader == partition.leader else election.leader,
        leader_recovery_state=(
            NO_RECOVERY_CHANGE if recovery in (None, partition.leader_recovery_state) else recovery
        ),
    )
    empty = PartitionChangeRecord(partition_id=partition.index, topic_id=topic_id)
    return None if record == empty else record


def _eligible(
    partition: PartitionImage, target: Target, rules: PartitionRules
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns eligible leader replicas and the last known ones.

    Replicas that leave an in-sync set below min.insync.replicas stay eligible: the high watermark
    does not advance any more, so they have all committed records.
    """
    if not rules.has_eligible or len(target.in_sync) >= rules.min_in_sync:
        return (), ()
    candidates = dict.fromkeys((*partition.eligible, *partition.in_sync))
    outside = [it for it in candidates if it not in target.in_sync]
    return tuple(it for it in outside if it not in target.unclean_shutdowns), partition.last_known


def _elect(
    partition: PartitionImage,
    in_sync: Sequence[int],
    eligible: Sequence[int],
    target: Target,
    rules: PartitionRules,
) -> Election:
    def is_clean(replica: int) -> bool:
        return (replica in in_sync or replica in eligible) and target.can_lead(replica)

    if is_clean(partition.leader):
        return Election(partition.leader)
    clean = next(filter(is_clean, partition.replicas), NO_LEADER)
    if clean != NO_LEADER:
        return Election(clean)
    if rules.has_eligible and not in_sync and not eligible and len(partition.last_known) == 1:
        (last,) = partition.last_known
        if target.can_lead(last):
            return Election(last, is_unclean=True)
    if rules.allows_unclean:
        leader = next(filter(target.can_lead, partition.replicas), NO_LEADER)
        return Election(leader, is_unclean=leader != NO_LEADER)
    return Election(NO_LEADER)


def _last_known(partition: PartitionImage, in_sync: Sequence[int], leader: int) -> tuple[int, ...]:
    """Returns the leader that a partition had when its in-sync set became empty."""
    if leader != NO_LEADER:
        return ()
    if not in_sync and partition.leader != NO_LEADER:
        return (partition.leader,)
    return partition.last_known


# --- changes that follow from the state of a broker


def without_broker(
    image: ClusterImage, broker_id: int, *, was_clean: bool = True
) -> Iterator[PartitionChangeRecord]:
    """Removes a broker from in-sync sets, after an unclean shutdown also from eligible replicas."""
    unclean = frozenset() if was_clean else frozenset({broker_id})
    for topic in image.topics.values():
        for partition in topic.partitions:
            if broker_id not in partition.in_sync and not (
                unclean and broker_id in partition.eligible
            ):
                continue
            target = Target(
                in_sync=[it for it in partition.in_sync if it != broker_id],
                can_lead=_leaders(image, partition, without=broker_id),
                unclean_shutdowns=unclean,
            )
            rules = rules_of(image, topic.name, len(partition.replicas))
            record = partition_change(partition, topic.id, target, rules)
            if record is not None:
                yield record


def with_broker(image: ClusterImage, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Elects leaders of partitions without one, where a returned broker makes that possible."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader != NO_LEADER:
                continue
            target = Target(
                in_sync=partition.in_sync,
                can_lead=_leaders(image, partition, returned=broker_id),
            )
            rules = rules_of(image, topic.name, len(partition.replicas))
            record = partition_change(partition, topic.id, target, rules)
            if record is not None:
                yield record


def without_directories(
    image: ClusterImage, broker_id: int, offline: frozenset[bytes]
) -> Iterator[PartitionChangeRecord]:
    """Removes a broker from the in-sync sets of partitions in directories that are offline."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            if broker_id not in partition.in_sync:
                continue
            position = partition.replicas.index(broker_id)
            if partition.directories[position] not in offline:
                continue
            target = Target(
                in_sync=[it for it in partition.in_sync if it != broker_id],
                can_lead=_leaders(image, partition, without=broker_id),
            )
            rules = rules_of(image, topic.name, len(partition.replicas))
            record = partition_change(partition, topic.id, target, rules)
            if record is not None:
                yield record


def _leaders(
    image: ClusterImage,
    partition: PartitionImage,
    *,
    without: int = NO_LEADER,
    returned: int = NO_LEADER,
) -> Callable[[int], bool]:
    def can_lead(replica: int) -> bool:
        if replica in (NO_LEADER, without):
            return False
        is_alive = replica == returned or is_active(image, replica)
        return is_alive and has_online_directory(image, partition, replica)

    return can_lead


def can_lead_in(image: ClusterImage, partition: PartitionImage) -> Callable[[int], bool]:
    """Returns whether a replica is active and its directory online."""
    return _leaders(image, partition)
