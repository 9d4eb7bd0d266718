"""The replayed state of a consumer group; only records change it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from pykbroker.coordination.assignors.assignor import NOTHING, Assignment
from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_counts import GroupCounts
from pykbroker.coordination.groups.consumer_member import (
    JOINING,
    NO_HOLDING,
    ConsumerMember,
    MemberState,
)
from pykbroker.coordination.groups.consumer_topics import NO_TOPICS
from pykbroker_protocol.internal_topics import consumer_groups as log
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.coordination.outcome import Write
    from pykbroker_protocol.message import Message

FIRST_EPOCH = 1
"""Epoch of a group without records."""


class GroupState(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target is older than the members or topics."""
    RECONCILING = "Reconciling"
    """Members are being reconciled with the target."""
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTopics:
    """The topics that a regular expression matches, at a version of the cluster metadata."""

    names: frozenset[str]
    version: int
    matched_at_ms: int


class ConsumerGroupState:
    """Epochs, members and targets, with derived counts and owners of partitions."""

    __slots__ = (
        "_subscriptions",
        "assigned_at_ms",
        "assignment_epoch",
        "counts",
        "epoch",
        "group_id",
        "holders",
        "instances",
        "members",
        "metadata_hash",
        "regexes",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = NO_TOPICS
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, MatchedTopics] = {}
        self.instances: dict[str, str] = {}
        """Member ids by group instance id."""
        self.holders: dict[tuple[bytes, int], str] = {}
        """Owner of each partition, until it has confirmed the revocation."""
        self.counts = GroupCounts()
        self._subscriptions: tuple[frozenset[str], ...] | None = None

    def copy(self) -> ConsumerGroupState:
        """Returns a copy into which a decision replays its own records."""
        twin = ConsumerGroupState(self.group_id)
        twin.epoch, twin.metadata_hash = self.epoch, self.metadata_hash
        twin.assignment_epoch, twin.assigned_at_ms = self.assignment_epoch, self.assigned_at_ms
        twin.members, twin.targets = dict(self.members), dict(self.targets)
        twin.regexes, twin.instances = dict(self.regexes), dict(self.instances)
        twin._subscriptions, twin.counts = self._subscriptions, self.counts.copy()
        twin.holders = dict(self.holders)
        return twin

    # --- queries

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(it.has_reached(self.assignment_epoch) for it in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def is_free_for(self, member_id: str, topic_id: bytes, partition: int) -> bool:
        return self.holders.get((topic_id, partition)) in (None, member_id)

    def topic_names_of(self, member: ConsumerMember) -> frozenset[str]:
        """Returns subscribed names plus names matched by the member's expression."""
        matched = self.regexes.get(member.topic_regex)
        if matched is None:
            return member.topic_names
        return member.topic_names | matched.names if member.topic_names else matched.names

    def subscriptions(self) -> tuple[frozenset[str], ...]:
        """Returns the different sets of topic names of all members.

        The union of many large sets takes too long: see `known_topics`.
        """
        if self._subscriptions is None:
            used = {inputs.topic_regex for inputs in self.counts.assignment_inputs}
            self._subscriptions = tuple(
                {inputs.topic_names for inputs in self.counts.assignment_inputs}.union(
                    it.names for regex, it in self.regexes.items() if regex in used
                )
            )
        return self._subscriptions

    def reads_topic(self, name: str) -> bool:
        return any(name in names for names in self.subscriptions())

    def is_used(self, regex: str) -> bool:
        return any(inputs.topic_regex == regex for inputs in self.counts.assignment_inputs)

    # --- replay

    def replay(self, key: Message, value: Message | None) -> None:
        """Replays one record; a tombstone has no value. The caller deletes the group itself."""
        match key, value:
            case log.ConsumerGroupMetadataKey(), log.ConsumerGroupMetadataValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case log.ConsumerGroupMemberMetadataKey(), log.ConsumerGroupMemberMetadataValue():
                self.replay_subscription(key.member_id, value)
            case log.ConsumerGroupMemberMetadataKey(), None:
                self.replay_departure(key.member_id)
            case log.ConsumerGroupTargetAssignmentMetadataKey(), _:
                self.replay_assignment_epoch(value)
            case log.ConsumerGroupTargetAssignmentMemberKey(), _:
                self.replay_target(key.member_id, value)
            case log.ConsumerGroupCurrentMemberAssignmentKey(), _:
                self.replay_current_assignment(key.member_id, value)
            case log.ConsumerGroupRegularExpressionKey(), _:
                self.replay_regex(key.regular_expression, value)
            case _:
                pass  # partition metadata of brokers before 4.1, replaced by the hash

    def replay_subscription(
        self, member_id: str, value: log.ConsumerGroupMemberMetadataValue
    ) -> None:
        self._subscriptions = None
        before = self.members.get(member_id)
        self.members[member_id] = (before or ConsumerMember(member_id))._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
        self.counts.member_changed(before, self.members[member_id])
        if value.instance_id is not None:
            self.instances[value.instance_id] = member_id

    def replay_departure(self, member_id: str) -> None:
        self._subscriptions = None
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self.counts.member_changed(member, None)
        self.release(member)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            del self.instances[member.instance_id]

    def replay_assignment_epoch(self, value: Message | None) -> None:
        if isinstance(value, log.ConsumerGroupTargetAssignmentMetadataValue):
            self.assignment_epoch = value.assignment_epoch
            self.assigned_at_ms = value.assignment_timestamp
        else:
            self.assignment_epoch, self.assigned_at_ms = FIRST_EPOCH, 0

    def replay_target(self, member_id: str, value: Message | None) -> None:
        before, after = self.targets.get(member_id), None
        if isinstance(value, log.ConsumerGroupTargetAssignmentMemberValue):
            after = self.targets[member_id] = {
                topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
            }
        else:
            self.targets.pop(member_id, None)
        self.counts.target_changed(member_id, before, after)

    def replay_current_assignment(self, member_id: str, value: Message | None) -> None:
        member = self.members.get(member_id)
        if isinstance(value, log.ConsumerGroupCurrentMemberAssignmentValue):
            # Compaction may keep the current assignment of a member without its subscription.
            self.advance(
                (member or ConsumerMember(member_id=member_id))._replace(
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                    state=records.read_state(value.state),
                    assigned=records.read_holding(value.assigned_partitions, value.member_epoch),
                    revoking=records.read_holding(
                        value.partitions_pending_revocation, value.member_epoch
                    ),
                )
            )
        elif member is not None:
            self.advance(
                member._replace(
                    epoch=JOINING,
                    previous_epoch=JOINING,
                    state=MemberState.STABLE,
                    assigned=NO_HOLDING,
                    revoking=NO_HOLDING,
                )
            )

    def advance(self, member: ConsumerMember) -> None:
        """Updates the owned partitions of a member."""
        before = self.members.get(member.member_id)
        if before is None:
            self.counts.member_changed(None, member)
        else:
            self.release(before)
        self.members[member.member_id] = member
        for partition in held_by(member):
            self.holders[partition] = member.member_id

    def release(self, member: ConsumerMember) -> None:
        for partition in held_by(member):
            if self.holders.get(partition) == member.member_id:
                del self.holders[partition]

    def replay_regex(self, regex: str, value: Message | None) -> None:
        self._subscriptions = None
        if isinstance(value, log.ConsumerGroupRegularExpressionValue):
            self.regexes[regex] = MatchedTopics(
                names=frozenset(value.topics),
                version=value.version,
                matched_at_ms=value.timestamp,
            )
        else:
            self.regexes.pop(regex, None)


def held_by(member: ConsumerMember) -> Iterator[tuple[bytes, int]]:
    for holding in (member.assigned, member.revoking):
        for topic_id, partitions in holding.items():
            for partition in partitions:
                yield topic_id, partition


def written(state: ConsumerGroupState) -> list[Write]:
    """Returns the group as records, as in a compacted log."""
    group_id = state.group_id
    return [
        *(records.subscription(group_id, it) for it in state.members.values()),
        *(
            records.regular_expression(group_id, regex, it.names, it.version, it.matched_at_ms)
            for regex, it in state.regexes.items()
        ),
        records.group_epoch(group_id, state.epoch, state.metadata_hash),
        *(records.target(group_id, it, target) for it, target in state.targets.items()),
        records.assignment_epoch(group_id, state.assignment_epoch, state.assigned_at_ms),
        *(records.current_assignment(group_id, it) for it in state.members.values()),
    ]
