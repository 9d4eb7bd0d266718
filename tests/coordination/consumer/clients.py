"""Simulated consumers of both protocols.

A client owns partitions that were assigned and not confirmed as revoked. Responses may be lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pykbroker.coordination.groups.consumer_classic_protocol import read_assignment
from pykbroker_protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_versioned,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest
from pykbroker_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pykbroker_protocol.messages.leave_group import MemberIdentity
from pykbroker_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordination.consumer.world import GROUP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.coordination.consumer.world import World

Places = frozenset[tuple[bytes, int]]

CODES = {int(code): code for code in ErrorCode}
CUT_OFF = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
}
"""After these errors a consumer gives up all its partitions and rejoins."""
REBALANCE_TIMEOUT_MS = 60_000
CLASSIC_SESSION_TIMEOUT_MS = 45_000


class Client(Protocol):
    member_id: str

    @property
    def owned(self) -> Places: ...

    def beat(self, *, answer_is_lost: bool = False) -> ErrorCode:
        """Runs one round of requests that keep the client in its group."""

    def leave(self) -> ErrorCode: ...


@dataclass
class Consumer:
    """A member of the consumer protocol."""

    world: World
    member_id: str
    topics: list[str] = field(default_factory=list)
    regex: str | None = None
    instance_id: str | None = None
    epoch: int = 0
    assigned: Places = frozenset()
    in_use: Places = frozenset()
    """Partitions to revoke that the client still processes."""
    is_busy: bool = False
    """Delays revocations."""
    last_request: ConsumerGroupHeartbeatRequest | None = None

    @property
    def owned(self) -> Places:
        return self.assigned | self.in_use

    def start_afresh(self) -> None:
        self.epoch, self.assigned, self.in_use = 0, frozenset(), frozenset()

    def beat(self, *, answer_is_lost: bool = False) -> ErrorCode:
        ticket = self.send()
        self.world.go_on()
        return ErrorCode.NONE if answer_is_lost else self.take(ticket)

    def send(self) -> int:
        """Sends a heartbeat that is decided together with others."""
        if not self.is_busy:
            self.in_use = frozenset()
        self.last_request = self.next_request()
        return self.world.heartbeat_arrives(self.last_request, client=self.member_id)

    def take(self, ticket: int) -> ErrorCode:
        return self.hear(self.world.heartbeat_answer(ticket))

    def beat_twice(self) -> None:
        """Sends the same frame again, late, and ignores the response.

        Excludes frames whose first response assigned more than they report as owned, such as a
        join: the protocol, like Apache Kafka's coordinator, has to believe them.
        """
        again = self.last_request
        if again is None or (self.epoch and not again.member_epoch):
            return
        if self.assigned <= from_wire(again.topic_partitions or ()):
            self.world.heartbeat(again, client=self.member_id)

    def next_request(self) -> ConsumerGroupHeartbeatRequest:
        if self.epoch <= 0:
            self.start_afresh()
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=self.topics,
            subscribed_topic_regex=self.regex,
            topic_partitions=as_wire(self.owned),
        )

    def hear(self, answer: ConsumerGroupHeartbeatResponse) -> ErrorCode:
        code = CODES[answer.error_code]
        if code in CUT_OFF:
            self.start_afresh()
        elif code is ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = from_wire(answer.assignment.topic_partitions)
                self.assigned, self.in_use = assigned, self.owned - assigned
        return code

    def leave(self, epoch: int = -1) -> ErrorCode:
        answer = self.world.heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self.member_id,
                member_epoch=epoch,
                instance_id=self.instance_id,
            )
        )
        self.start_afresh()
        return CODES[answer.error_code]


def as_wire(places: Places) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(p for t, p in places if t == topic_id))
        for topic_id in sorted({topic_id for topic_id, _ in places})
    ]


def from_wire(topics: Sequence[TopicPartitions]) -> Places:
    return frozenset((it.topic_id, partition) for it in topics for partition in it.partitions)


@dataclass
class ClassicConsumer:
    """A member of the classic protocol with a cooperative assignor."""

    world: World
    member_id: str
    topics: list[str] = field(default_factory=list)
    instance_id: str | None = None
    generation: int = -1
    owned: Places = frozenset()
    name: str = ""
    assigned_in_generation: int = -1
    """Generation of the assignment; between a join and its sync that of the previous one."""
    must_join: bool = True
    is_cooperative: bool = True

    def beat(self, *, answer_is_lost: bool = False) -> ErrorCode:
        if self.must_join:
            return self.join(answer_is_lost=answer_is_lost)
        answer = self.world.beat(
            HeartbeatRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            )
        )
        return ErrorCode.NONE if answer_is_lost else self.hear(CODES[answer.error_code])

    def hear(self, code: ErrorCode) -> ErrorCode:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.generation, self.owned = -1, frozenset()
        if code is not ErrorCode.NONE:
            self.must_join = True
        return code

    def join(self, *, answer_is_lost: bool = False) -> ErrorCode:
        if not self.is_cooperative:
            self.owned = frozenset()
        answer = self.world.join(self.join_request(), client=self.name)
        if answer is not None and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self.world.join(self.join_request(), client=self.name)
        if answer is None or answer_is_lost:
            return ErrorCode.NONE
        if answer.error_code != ErrorCode.NONE:
            return self.hear(CODES[answer.error_code])
        self.generation, self.must_join = answer.generation_id, False
        leads = answer.leader == answer.member_id
        members = [it.member_id for it in answer.members] if leads else []
        return self.sync(members)

    def join_request(self) -> JoinGroupRequest:
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[
                TopicPartition(topic=topic.name, partitions=it.partitions)
                for it in as_wire(self.owned)
                if (topic := self.world.topics.topic_of_id(it.topic_id)) is not None
            ],
            generation_id=self.generation,
        )
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=CLASSIC_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="range", metadata=encode_versioned(subscription, 3))
            ],
        )

    def sync(self, members: list[str]) -> ErrorCode:
        """Assigns all partitions to the first member, as leader of a classic group."""
        shares = [
            ConsumerProtocolAssignmentTopicPartition(
                topic=it.name, partitions=range(it.partition_count)
            )
            for it in map(self.world.topics.topic, self.topics)
            if it is not None
        ]
        assignments = [ConsumerProtocolAssignment(assigned_partitions=shares)]
        assignments += [ConsumerProtocolAssignment(assigned_partitions=[])] * len(members)
        answer = self.world.sync(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    SyncGroupRequestAssignment(member_id=it, assignment=encode_versioned(share, 3))
                    for it, share in zip(members, assignments, strict=False)
                ],
            )
        )
        if answer is None:
            return ErrorCode.NONE
        if answer.error_code != ErrorCode.NONE:
            return self.hear(CODES[answer.error_code])
        share = read_assignment(bytes(answer.assignment), self.world.topics)
        assigned = frozenset((topic_id, it) for topic_id in share for it in share[topic_id])
        if not self.owned <= assigned:
            self.must_join = True  # reports the revocation
        self.owned, self.assigned_in_generation = assigned, self.generation
        return ErrorCode.NONE

    def leave(self) -> ErrorCode:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        answer = self.world.leave(identity)
        self.generation, self.owned, self.must_join = -1, frozenset(), True
        return CODES[answer.members[0].error_code]
