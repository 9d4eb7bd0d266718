"""What is known of a consumer group; nothing but a replayed record changes it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from pykbroker.coordination.assignors.assignor import NOTHING, Assignment
from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_member import (
    JOINING,
    NO_HOLDING,
    ConsumerMember,
    MemberState,
)
from pykbroker.coordination.groups.consumer_tallies import Tallies
from pykbroker.coordination.groups.consumer_topics import NO_TOPICS
from pykbroker_protocol.internal_topics import consumer_groups as log
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.coordination.outcome import Write
    from pykbroker_protocol.message import Message

FIRST_EPOCH = 1
"""Of a group that nobody has written down yet."""


class GroupState(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """Its target is older than its members or topics."""
    RECONCILING = "Reconciling"
    """Members are on their way to the target."""
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTopics:
    """The topics that a regular expression has found, at a version of the cluster's metadata."""

    names: frozenset[str]
    version: int
    matched_at_ms: int


class ConsumerGroupState:
    """Epochs, members, targets; and, derived from these, tallies and who holds each partition."""

    __slots__ = (
        "_subscriptions",
        "assigned_at_ms",
        "assignment_epoch",
        "epoch",
        "group_id",
        "holders",
        "instances",
        "members",
        "metadata_hash",
        "regexes",
        "tallies",
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
        """The member that was told to read a partition and has not said yet that it stopped."""
        self.tallies = Tallies()
        self._subscriptions: tuple[frozenset[str], ...] | None = None

    def copy(self) -> ConsumerGroupState:
        """For a decision that has to see what its own records bring about."""
        twin = ConsumerGroupState(self.group_id)
        twin.epoch, twin.metadata_hash = self.epoch, self.metadata_hash
        twin.assignment_epoch, twin.assigned_at_ms = self.assignment_epoch, self.assigned_at_ms
        twin.members, twin.targets = dict(self.members), dict(self.targets)
        twin.regexes, twin.instances = dict(self.regexes), dict(self.instances)
        twin._subscriptions, twin.tallies = self._subscriptions, self.tallies.copy()
        twin.holders = dict(self.holders)
        return twin

    # Questions

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
        """What a member subscribes to by name, and what its regular expression has found."""
        matched = self.regexes.get(member.topic_regex)
        if matched is None:
            return member.topic_names
        return member.topic_names | matched.names if member.topic_names else matched.names

    def subscriptions(self) -> tuple[frozenset[str], ...]:
        """The different sets of topic names that members subscribe to.

        The union of many large sets takes too long: see `known_topics`.
        """
        if self._subscriptions is None:
            used = {wish.topic_regex for wish in self.tallies.wishes}
            self._subscriptions = tuple(
                {wish.topic_names for wish in self.tallies.wishes}.union(
                    it.names for regex, it in self.regexes.items() if regex in used
                )
            )
        return self._subscriptions

    def reads_topic(self, name: str) -> bool:
        return any(name in names for names in self.subscriptions())

    def is_used(self, regex: str) -> bool:
        return any(wish.topic_regex == regex for wish in self.tallies.wishes)

    # Replay

    def replay(self, key: Message, value: Message | None) -> None:
        """Take one record in; a tombstone has no value. Forgetting the group is not done here."""
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
                self.replay_progress(key.member_id, value)
            case log.ConsumerGroupRegularExpressionKey(), _:
                self.replay_regex(key.regular_expression, value)
            case _:
                pass  # partition metadata is what brokers before 4.1 kept; the hash replaced it

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
        self.tallies.member_changed(before, self.members[member_id])
        if value.instance_id is not None:
            self.instances[value.instance_id] = member_id

    def replay_departure(self, member_id: str) -> None:
        self._subscriptions = None
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self.tallies.member_changed(member, None)
        self.let_go(member)
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
        self.tallies.target_changed(member_id, before, after)

    def replay_progress(self, member_id: str, value: Message | None) -> None:
        member = self.members.get(member_id)
        if isinstance(value, log.ConsumerGroupCurrentMemberAssignmentValue):
            # Compaction may have left the progress of a member before its subscription.
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
        """Let a member hold what it is now said to hold, and nothing else."""
        before = self.members.get(member.member_id)
        if before is None:
            self.tallies.member_changed(None, member)
        else:
            self.let_go(before)
        self.members[member.member_id] = member
        for place in held_by(member):
            self.holders[place] = member.member_id

    def let_go(self, member: ConsumerMember) -> None:
        for place in held_by(member):
            if self.holders.get(place) == member.member_id:
                del self.holders[place]

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
    """The group as records: what a compacted log would hold of it."""
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
        *(records.progress(group_id, it) for it in state.members.values()),
    ]
