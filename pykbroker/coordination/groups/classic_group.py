"""A classic group: its members, its generation, and the state of a rebalance."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_member import member_of_record
from pykbroker.coordination.groups.classic_state import ANSWERS, LEGAL_TRANSITIONS, GroupState
from pykbroker.coordination.groups.group import GroupKind
from pykbroker.coordination.groups.member_bytes import MEMBER_OVERHEAD_BYTES, length
from pykbroker.coordination.outcome import Write
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.consumer_protocol import CONSUMER_PROTOCOL_TYPE, read_subscription
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.classic_groups import GroupMetadataKey, GroupMetadataValue
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pykbroker.coordination.groups.classic_member import Member

GROUP_VALUE_VERSION = 3


@dataclass(slots=True)
class InitialDelay:
    """The initial delay, in which a new group waits for more members (KIP-134)."""

    left_ms: int
    grew: bool = False


class ClassicGroup:
    """The replayed state of a group, plus a running rebalance.

    A rebalance exists only in memory: after a crash the group has its last assignment, and the
    members join again.
    """

    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        """None if the group has no members yet, or was a consumer group before."""
        self.state_since_ms = -1
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        """Member ids by group instance id."""
        self.pending: set[str] = set()
        """Allocated member ids whose members have not joined yet (KIP-394)."""
        self.joined: set[str] = set()
        """Members that have joined the next generation."""
        self.unsynced: set[str] = set()
        """Members that have not sent SyncGroup yet."""
        self.member_bytes = 0
        """Memory of members and pending member ids."""
        self.initial_delay: InitialDelay | None = None
        self._supporters: Counter[str] = Counter()
        self._topics: frozenset[str] | None = None
        self._topics_are_read = False

    # --- the interface of groups of both protocols

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    def refusal_of_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool,
        version: int,  # noqa: ARG002  # part of the interface
        committed_partitions: Sequence[tuple[bytes, int]] | None = None,  # noqa: ARG002  # likewise
    ) -> ErrorCode:
        if generation < 0 and self.is_empty:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            code = self.refusal_of_member(member_id, instance_id, generation)
            if code is not ErrorCode.NONE:
                return code
        elif not transactional and not self.is_empty:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if transactional else ANSWERS[self.state].commit

    def refusal_of_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode:  # noqa: ARG002  # part of the interface
        return ErrorCode.NONE

    def refusal_of_offset_deletion(self) -> ErrorCode:
        """Allows it if the group is empty or its members are consumers, whose topics are known."""
        if self.is_empty or self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def refusal_of_deletion(self) -> ErrorCode:
        return ANSWERS[self.state].deletion

    def reads_topic(self, topic: str) -> bool:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        topics = self.subscribed_topics()
        return topics is None or topic in topics

    def offset_ages_from_ms(self, commit_timestamp_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_timestamp_ms
        if self.is_empty:
            return self.state_since_ms if self.state_since_ms >= 0 else commit_timestamp_ms
        if (
            self.state is GroupState.STABLE
            and self.protocol_type == CONSUMER_PROTOCOL_TYPE
            and self.subscribed_topics() is not None
        ):
            return commit_timestamp_ms
        return None

    def bytes_of_member(self, member_id: str, instance_id: str | None) -> int:
        member = self.members.get(self.instances.get(instance_id or "", member_id))
        return 0 if member is None else member.counted_bytes

    def tombstones(self) -> Sequence[Write]:
        return (Write(GroupMetadataKey(group=self.group_id), None),)

    def subscribed_topics(self) -> frozenset[str] | None:
        """Returns the subscribed topics of the generation; None if they cannot be decoded."""
        if not self._topics_are_read:
            chosen = self.protocol or ""
            self._topics = subscribed_topics(
                member.protocols[chosen]
                for member in self.members.values()
                if chosen in member.protocols
            )
            self._topics_are_read = True
        return self._topics

    # --- records

    def as_write(
        self,
        now_ms: int,
        *,
        generation: int,
        assignments: Mapping[str, bytes],
    ) -> Write:
        """Encodes the group as a record."""
        protocol = self.protocol if self.members else None
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=generation,
            protocol=protocol,
            leader=self.leader if self.members else None,
            current_state_timestamp=now_ms,
            members=[
                member.as_record(protocol or "", assignments.get(member.member_id, b""))
                for member in self.members.values()
            ],
        )
        return Write(GroupMetadataKey(group=self.group_id), value, GROUP_VALUE_VERSION)

    def replay(self, value: GroupMetadataValue) -> None:
        """Applies a record; existing members keep state that is not in the log."""
        self.protocol_type, self.protocol = value.protocol_type, value.protocol
        self.generation, self.leader = value.generation, value.leader
        self.state_since_ms = value.current_state_timestamp
        protocol = value.protocol or ""
        here, self.members = self.members, {}
        self.member_bytes = sum(map(self._bytes_of_pending, self.pending))
        self.instances.clear()
        self._supporters.clear()
        for stored in value.members:
            member = here.get(stored.member_id)
            if member is None or member.protocols.get(protocol) != stored.subscription:
                member = member_of_record(stored, protocol)
            member.assignment = bytes(stored.assignment)
            self._add(member)
        self.joined.clear()
        self.unsynced &= self.members.keys()
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    # --- members

    def refusal_of_member(
        self, member_id: str, instance_id: str | None, generation: int | None = None
    ) -> ErrorCode:
        """Returns the error if the member id or the static instance does not match."""
        if instance_id is not None:
            current = self.instances.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation is not None and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def supports(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Returns whether a member with these protocols is compatible with the other members."""
        if self.is_empty:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._supporters[name] == len(self.members) for name in protocols)

    def add(self, member: Member) -> None:
        if self.leader is None:
            self.leader = member.member_id
        self.remove_pending(member.member_id)
        self.joined.add(member.member_id)
        self._add(member)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self.member_bytes -= member.counted_bytes
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        self._supporters -= Counter(list(member.protocols))
        self.joined.discard(member_id)
        self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self._topics_are_read = False

    def substitute(self, former: Member, member: Member) -> None:
        """Replaces a static member by its new instance with a new member id."""
        led = self.leader == former.member_id
        self.remove(former.member_id)
        self._add(member)
        if led:
            self.leader = member.member_id

    def change(
        self,
        member: Member,
        *,
        protocols: dict[str, bytes],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        self._supporters -= Counter(list(member.protocols))
        self._supporters.update(list(protocols))
        member.protocols = protocols
        self.count(member)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms
        self._topics_are_read = False

    def add_pending(self, member_id: str) -> None:
        """Adds an allocated member id whose member has not joined yet."""
        if member_id not in self.pending:
            self.pending.add(member_id)
            self.member_bytes += self._bytes_of_pending(member_id)

    def remove_pending(self, member_id: str) -> None:
        if member_id in self.pending:
            self.pending.remove(member_id)
            self.member_bytes -= self._bytes_of_pending(member_id)

    def _bytes_of_pending(self, member_id: str) -> int:
        return MEMBER_OVERHEAD_BYTES + length(self.group_id, member_id)

    def count(self, member: Member) -> None:
        """Updates the counted memory after a member's data changed."""
        held_bytes = member.held_bytes + len(self.group_id)
        self.member_bytes += held_bytes - member.counted_bytes
        member.counted_bytes = held_bytes

    def _add(self, member: Member) -> None:
        self.members[member.member_id] = member
        member.counted_bytes = 0
        self.count(member)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self._supporters.update(list(member.protocols))
        self._topics_are_read = False

    # --- generations

    def set_state(self, state: GroupState) -> None:
        assert (self.state, state) in LEGAL_TRANSITIONS, f"{self.group_id}: {self.state} to {state}"
        self.state = state

    @property
    def all_have_joined(self) -> bool:
        return len(self.joined) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((it.rebalance_timeout_ms for it in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Keeps the leader if it has joined, else elects a member that waits for its response."""
        candidates = [name for name in (self.leader, *self.members) if name in self.joined]
        reachable = (name for name in candidates if name and self.members[name].has_parked_request)
        elected = next(reachable, candidates[0] if candidates else None)
        if elected is None:
            return False
        self.leader = elected
        return True

    def begin_generation(self) -> None:
        self.generation += 1
        self.protocol = self.elect_protocol()
        self.joined.clear()
        self.unsynced = set(self.members)
        self._topics_are_read = False
        self.set_state(GroupState.COMPLETING_REBALANCE)

    def elect_protocol(self) -> str:
        """Elects the protocol by vote: each member's first protocol that all have in common."""
        common = {name for name, count in self._supporters.items() if count == len(self.members)}
        assert common, f"{self.group_id}: members have no common protocol"
        votes = Counter(
            next(name for name in member.protocols if name in common)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Returns the topics of all subscriptions; None if one of them cannot be decoded."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(read_subscription(subscription).topics)
    except MalformedMessage:
        return None
    return frozenset(topics)
