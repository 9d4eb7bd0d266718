"""Groups of both protocols with a log, clock, timers and topics in memory.

Every record is encoded and decoded. After every step a group that is replayed from the log must
equal the group in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pykbroker.coordination.assignors import ASSIGNORS
from pykbroker.coordination.groups.consumer_assignment import (
    chosen_assignor,
    compute,
    subscribers,
)
from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
from pykbroker.coordination.groups.consumer_topics import TopicView, known_topics
from pykbroker.coordination.groups.registry import Groups
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker.coordination.outcome import SetTimer
from pykbroker.generators import run_to_end
from pykbroker_protocol.compiler import decode, encode
from pykbroker_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pykbroker_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pykbroker_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from pykbroker_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.coordination.group_world import counted_again

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pykbroker.coordination.groups.consumer_group import ConsumerGroup
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker.coordination.outcome import Outcome, Write
    from pykbroker_protocol.message import Message

GROUP = "fleet"
CLASSIC_SETTINGS = GroupSettings(initial_rebalance_delay_ms=0, session_timeout_ms_min=1)


@dataclass
class Topics:
    """The topics of the cluster; every change has a new version."""

    by_name: dict[str, TopicView] = field(default_factory=dict)
    version: int = 0

    def put(self, name: str, partition_count: int, racks: Iterable[Iterable[str]] = ()) -> None:
        self.version += 1
        known = self.by_name.get(name)
        self.by_name[name] = TopicView(
            topic_id=known.topic_id if known else self.version.to_bytes(16, "big"),
            name=name,
            partition_count=partition_count,
            racks=tuple(map(frozenset, racks)),
        )

    def delete(self, name: str) -> None:
        self.version += 1
        del self.by_name[name]

    def topic(self, name: str) -> TopicView | None:
        return self.by_name.get(name)

    def topic_of_id(self, topic_id: bytes) -> TopicView | None:
        return next((it for it in self.by_name.values() if it.topic_id == topic_id), None)

    def names(self) -> Collection[str]:
        return self.by_name.keys()


class World:
    def __init__(self, settings: ConsumerGroupSettings | None = None) -> None:
        self.settings = settings or ConsumerGroupSettings()
        self.topics = Topics()
        self.now_ms = 1_000_000
        self.log: list[Write] = []
        self.timers: dict[tuple[str, ...], int] = {}
        self.deferred: list[tuple[str, ...]] = []
        self.written: list[Write] = []
        """Responses since the last step began."""
        self.reasons: list[str] = []
        self.answers: dict[int, Message] = {}
        self.tickets = 0
        self.start()

    def start(self) -> None:
        self.groups = Groups(CLASSIC_SETTINGS, self.settings, self.topics)

    def find(self) -> ConsumerGroup | None:
        return self.groups.consumer.find(GROUP)

    @property
    def group(self) -> ConsumerGroup:
        group = self.find()
        assert group is not None
        return group

    @property
    def state(self) -> ConsumerGroupState:
        return self.group.state

    # Outcomes

    def carry_out(self, outcome: Outcome) -> None:
        for write in outcome.writes:
            self.append(write)
        for timer in outcome.timers:
            if isinstance(timer, SetTimer):
                self.timers[timer.name] = timer.at_ms
            else:
                self.timers.pop(timer.name, None)
        self.deferred += (name for name in outcome.deferred if name not in self.deferred)
        for reply in outcome.replies:
            self.answers[reply.ticket] = reply.response
        self.reasons += outcome.reasons

    def append(self, write: Write) -> None:
        key = decode(type(write.key), 0, encode(write.key, 0))
        value = write.value
        if value is not None:
            value = decode(type(value), write.value_version, encode(value, write.value_version))
        self.log.append(write._replace(key=key, value=value))
        self.written.append(write)
        self.groups.replay(key, value)

    def pass_time(self, duration_ms: int) -> None:
        """Fires due timers in order."""
        end_ms = self.now_ms + duration_ms
        while due := [(at_ms, name) for name, at_ms in self.timers.items() if at_ms <= end_ms]:
            at_ms, name = min(due)
            del self.timers[name]
            self.now_ms = max(self.now_ms, at_ms)
            self.carry_out(self.groups.timer(name, self.now_ms))
        self.now_ms = end_ms

    def restart(self) -> None:
        """Crashes the coordinator; a new one replays the log."""
        self.start()
        self.timers.clear()
        self.deferred.clear()
        for write in self.log:
            self.groups.replay(write.key, write.value)
        self.carry_out(self.groups.loaded(self.now_ms))

    # Requests

    def ask(self, decide: Callable[[int], Outcome]) -> Message | None:
        """Returns the response unless the request is parked."""
        ticket = self.arrive(decide)
        self.go_on()
        return self.answers.get(ticket)

    def arrive(self, decide: Callable[[int], Outcome]) -> int:
        """Sends a request together with others."""
        self.tickets += 1
        self.carry_out(decide(self.tickets))
        return self.tickets

    def go_on(self) -> None:
        """Decides all requests that were sent together."""
        while self.deferred:
            self.go_one_step()

    def go_one_step(self) -> None:
        """Runs one deferred decision, if there is any."""
        if self.deferred:
            self.carry_out(self.groups.timer(self.deferred.pop(0), self.now_ms))

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, *, version: int = 1, client: str = "client"
    ) -> ConsumerGroupHeartbeatResponse:
        ticket = self.heartbeat_arrives(request, version=version, client=client)
        self.go_on()
        return self.heartbeat_answer(ticket)

    def heartbeat_arrives(
        self, request: ConsumerGroupHeartbeatRequest, *, version: int = 1, client: str = "client"
    ) -> int:
        return self.arrive(
            lambda ticket: self.groups.consumer_group_heartbeat(
                request, ticket=ticket, version=version, **self.sender(client)
            )
        )

    def heartbeat_answer(self, ticket: int) -> ConsumerGroupHeartbeatResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    def sender(self, client: str) -> dict[str, Any]:
        return {
            "client_id": client,
            "client_host": "/127.0.0.1",
            "new_member_id": f"new-{self.tickets}",
            "now_ms": self.now_ms,
        }

    def join(
        self, request: JoinGroupRequest, *, version: int = 9, client: str = "client"
    ) -> JoinGroupResponse | None:
        answer = self.ask(
            lambda ticket: self.groups.join_group(
                request, ticket=ticket, version=version, **self.sender(client)
            )
        )
        assert answer is None or isinstance(answer, JoinGroupResponse)
        return answer

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse | None:
        answer = self.ask(
            lambda ticket: self.groups.sync_group(
                request, version=5, ticket=ticket, now_ms=self.now_ms
            )
        )
        assert answer is None or isinstance(answer, SyncGroupResponse)
        return answer

    def beat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        answer = self.ask(
            lambda ticket: self.groups.heartbeat(request, ticket=ticket, now_ms=self.now_ms)
        )
        assert isinstance(answer, HeartbeatResponse)
        return answer

    def leave(self, *identities: MemberIdentity) -> LeaveGroupResponse:
        ticket = self.leaving_arrives(*identities)
        self.go_on()
        answer = self.answers[ticket]
        assert isinstance(answer, LeaveGroupResponse)
        return answer

    def leaving_arrives(self, *identities: MemberIdentity) -> int:
        request = LeaveGroupRequest(group_id=GROUP, members=identities)
        return self.arrive(
            lambda ticket: self.groups.leave_group(
                request, version=5, ticket=ticket, now_ms=self.now_ms
            )
        )

    # Invariants

    def check(self) -> None:
        """The replayed state, compacted or not, equals the state in memory."""
        assert self.groups.member_bytes.of_coordinator.total == counted_again(self.groups)
        group = self.find()
        for log in (self.log, compacted(self.log)):
            reader = World(self.settings)
            for write in log:
                reader.groups.replay(write.key, write.value)
            again = reader.find()
            assert (again is None) == (group is None)
            if group is not None and again is not None:
                assert facts(again.state) == facts(group.state)
        if group is not None:
            self.check_short_cuts(group)

    def check_short_cuts(self, group: ConsumerGroup) -> None:
        """The fast path for new members has the same result as a full assignment."""
        state, memory = group.state, group.cache
        settings = self.settings.of(GROUP)
        known = known_topics(state.subscriptions(), self.topics)
        to_assign = {topic.topic_id: topic.to_assign() for topic in known.values()}
        assign = ASSIGNORS[chosen_assignor(state, settings)]
        whole = assign(run_to_end(subscribers(state, known)), to_assign)
        targets_are_disjoint = memory.disjoint_at_epoch == state.assignment_epoch
        computed = run_to_end(
            compute(state, self.topics, settings, targets_are_disjoint=targets_are_disjoint)
        )
        before = {member_id: state.target_of(member_id) for member_id in state.members}
        assert {**before, **computed} == whole


def compacted(log: list[Write]) -> list[Write]:
    """Keeps the last record of each key and no tombstone."""
    names = [bytes([it.key.record_type]) + encode(it.key, 0) for it in log]
    last = {name: index for index, name in enumerate(names)}
    return [
        it for index, it in enumerate(log) if last[names[index]] == index and it.value is not None
    ]


def facts(state: ConsumerGroupState) -> dict[str, object]:
    names = [name for name in state.__slots__ if name != "_subscriptions"]  # derived from the rest
    return {name: getattr(state, name) for name in names}
