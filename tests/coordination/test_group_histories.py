"""Random histories of one group, with invariants.

A partition has one owner per generation; generations only grow; no parked request is lost or
answered twice; every member gets a response; and the log determines the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pykbroker.coordination.groups.classic_member import member_id_for
from pykbroker.coordination.groups.classic_state import GroupState
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.classic_groups import GroupMetadataKey
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pykbroker_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pykbroker_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykbroker_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.coordination.group_world import World, counted_again

if TYPE_CHECKING:
    from pykbroker.coordination.outcome import Outcome, Ticket

GROUP = "fleet"
PARTITIONS = 4
SESSION_MS, STATIC_SESSION_MS, REBALANCE_MS, NEWCOMER_MS = 6_000, 25_000, 20_000, 30_000
CLIENTS = st.integers(0, 5)
"""The last two are static members."""
STATIC_FROM = 4
PROTOCOLS = st.sampled_from(
    [("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ("range", "sticky", "odd")]
)
DELAYS = st.sampled_from([1, 500, 3_000, 5_999, 6_000, 20_000, 31_000])


class Client:
    """A client that acts on its last response, which may be outdated."""

    def __init__(self, name: str, instance_id: str | None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.protocol = "range"
        self.led: list[str] = []
        """The members to assign to, if it is leader."""
        self.assigned = -1
        """The generation of its last assignment."""
        self.heard = ErrorCode.NONE


class GroupHistories(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3_000]), members_max=st.sampled_from([2, 4, 100]))
    def begin(self, delay_ms: int, members_max: int) -> None:
        self.world = World(
            GroupSettings(
                initial_rebalance_delay_ms=delay_ms,
                members_max=members_max,
                newcomer_join_timeout_ms=NEWCOMER_MS,
            )
        )
        names = [f"client{number}" for number in range(6)]
        self.clients = [
            Client(name, name if number >= STATIC_FROM else None)
            for number, name in enumerate(names)
        ]
        self.askers: dict[Ticket, Client] = {}
        self.asked_at_ms: dict[Ticket, int] = {}
        self.offered: dict[Ticket, tuple[str, ...]] = {}
        """The protocols that a JoinGroup came with."""
        self.unique = 0
        self.checked = 0
        """The part of the log that was written successfully."""
        self.generation = 0
        self.owners: dict[int, dict[str, bytes]] = {}
        """Assignments by generation and member."""

    def ask(self, client: Client, request: object) -> None:
        def decide(ticket: Ticket) -> Outcome:
            self.askers[ticket] = client
            self.asked_at_ms[ticket] = self.world.now_ms
            return self.route(client, request, ticket)

        self.world.ask(decide)
        self.listen()

    def route(self, client: Client, request: object, ticket: Ticket) -> Outcome:
        groups, now_ms = self.world.groups, self.world.now_ms
        match request:
            case (JoinGroupRequest() as join, int() as version):
                self.unique += 1
                self.offered[ticket] = tuple(it.name for it in join.protocols)
                return groups.join_group(
                    join,
                    version=version,
                    ticket=ticket,
                    client_id=client.name,
                    client_host="/127.0.0.1",
                    new_member_id=member_id_for(join, client.name, str(self.unique)),
                    now_ms=now_ms,
                )
            case SyncGroupRequest():
                return groups.sync_group(request, version=5, ticket=ticket, now_ms=now_ms)
            case HeartbeatRequest():
                return groups.heartbeat(request, ticket=ticket, now_ms=now_ms)
            case LeaveGroupRequest():
                return groups.leave_group(request, version=5, ticket=ticket, now_ms=now_ms)
            case OffsetCommitRequest():
                return groups.offset_commit(request, version=9, ticket=ticket, now_ms=now_ms)
        raise AssertionError(request)

    def listen(self) -> None:
        replies, self.world.replies = self.world.replies, []
        for ticket, response in replies:
            client = self.askers.pop(ticket)
            match response:
                case JoinGroupResponse():
                    self.hear_join(client, response, self.offered[ticket])
                case HeartbeatResponse():
                    client.heard = error_of(response.error_code)
                case SyncGroupResponse(error_code=ErrorCode.NONE):
                    self.hear_assignment(client, bytes(response.assignment))
        written, self.world.written = self.world.written, []
        if any(isinstance(it.key, GroupMetadataKey) and it.value is None for it in written):
            self.generation = 0  # the group was deleted and starts again
            self.owners.clear()

    def hear_join(
        self, client: Client, response: JoinGroupResponse, offered: tuple[str, ...]
    ) -> None:
        if response.error_code == ErrorCode.NONE:
            assert response.generation_id >= self.generation, "generations only grow"
            self.generation = response.generation_id
            assert response.protocol_name in offered, "a protocol that it knows"
            client.member_id = response.member_id
            client.generation = response.generation_id
            client.protocol = response.protocol_name or ""
            client.led = [it.member_id for it in response.members]
        elif response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""

    def hear_assignment(self, client: Client, assignment: bytes) -> None:
        client.assigned = client.generation
        owners = self.owners.setdefault(client.generation, {})
        name = client.instance_id or client.member_id
        assert owners.setdefault(name, assignment) == assignment, "the same in each reply"
        owned = b"".join(owners.values())
        assert len(set(owned)) == len(owned), "one owner a partition"

    # --- steps of clients, in any order

    @rule(number=CLIENTS, protocols=PROTOCOLS, version=st.sampled_from([3, 5, 9]))
    def joins(self, number: int, protocols: tuple[str, ...], version: int) -> None:
        client = self.clients[number]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS if client.instance_id is None else STATIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=it, metadata=b"") for it in protocols],
        )
        self.ask(client, (request, version))

    @rule(number=CLIENTS)
    def syncs(self, number: int) -> None:
        client = self.clients[number]
        shares: dict[str, list[int]] = {it: [] for it in client.led}
        for partition in range(PARTITIONS if client.led else 0):
            shares[client.led[partition % len(client.led)]].append(partition)
        assignments = [
            SyncGroupRequestAssignment(member_id=it, assignment=bytes(share))
            for it, share in shares.items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocol_name=client.protocol,
            assignments=assignments,
        )
        self.ask(client, request)

    @rule(number=CLIENTS)
    def beats(self, number: int) -> None:
        client = self.clients[number]
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )
        self.ask(client, request)

    @precondition(lambda self: self.world.waiting)
    @rule(data=st.data())
    def somebody_leaves_who_waits(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.world.waiting)))
        self.leaves(int(self.askers[ticket].name[-1]))

    @rule(number=CLIENTS)
    def leaves(self, number: int) -> None:
        client = self.clients[number]
        identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
        self.ask(client, LeaveGroupRequest(group_id=GROUP, members=[identity]))

    @rule(number=CLIENTS, offset=st.integers(0, 9))
    def commits(self, number: int, offset: int) -> None:
        client = self.clients[number]
        partition = OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_metadata=None
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            topics=[OffsetCommitRequestTopic(name="log", partitions=[partition])],
        )
        self.ask(client, request)

    @rule(numbers=st.lists(CLIENTS, min_size=1, max_size=4, unique=True))
    def some_behave_until_they_agree(self, numbers: list[int]) -> None:
        """Clients that follow the protocol reach a stable generation after any history."""
        assume(len(numbers) <= self.world.settings.members_max)
        clients = [self.clients[number] for number in numbers]
        for _ in range(90):
            for number in numbers:
                self.does_as_it_was_told(number)
            if self.is_agreed(clients):
                return
            self.time_passes(1_000)
        raise AssertionError("no agreement")

    @rule(numbers=st.lists(CLIENTS, min_size=1, max_size=4, unique=True), rounds=st.integers(1, 8))
    def some_behave_for_a_while(self, numbers: list[int], rounds: int) -> None:
        for _ in range(rounds):
            for number in numbers:
                self.does_as_it_was_told(number)
            self.time_passes(500)

    def does_as_it_was_told(self, number: int) -> None:
        client = self.clients[number]
        if any(self.askers.get(ticket) is client for ticket in self.world.waiting):
            return
        self.beats(number)
        if client.heard is not ErrorCode.NONE or not client.member_id:
            self.joins(number, ("range", "sticky"), 9)
        elif client.assigned != client.generation:
            self.syncs(number)

    def is_agreed(self, clients: list[Client]) -> bool:
        group = self.world.groups.classic(GROUP)
        if group is None or group.state is not GroupState.STABLE:
            return False
        if any(it.assigned != group.generation for it in clients):
            return False
        if {it.member_id for it in clients} == group.members.keys():
            owned = b"".join(self.owners[group.generation].values())
            assert set(owned) == set(range(PARTITIONS)), "every partition has an owner"
        return True

    @rule(number=CLIENTS)
    def starts_anew(self, number: int) -> None:
        self.clients[number].member_id = ""

    # --- disturbances

    @precondition(lambda self: self.world.waiting)
    @rule(data=st.data())
    def a_connection_is_lost(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.world.waiting)))
        self.world.cut_off(ticket)
        del self.askers[ticket]

    @rule(delay_ms=DELAYS)
    def time_passes(self, delay_ms: int) -> None:
        self.world.pass_time(delay_ms)
        self.listen()

    @rule()
    def the_coordinator_restarts(self) -> None:
        assume(self.world.log)
        self.world.restart()
        self.askers.clear()
        group = self.world.groups.classic(GROUP)
        # A generation without a written assignment was not promised to any member.
        self.generation = 0 if group is None else group.generation
        for generation in [it for it in self.owners if it > self.generation]:
            del self.owners[generation]

    # --- invariants

    @invariant()
    def every_waiting_request_is_known(self) -> None:
        parked = [
            ticket
            for group in (self.world.groups.classic(GROUP),)
            if group is not None
            for member in group.members.values()
            for ticket in (member.join_ticket, member.sync_ticket)
            if ticket is not None
        ]
        assert len(parked) == len(set(parked))
        assert set(parked) == self.world.waiting

    @invariant()
    def what_members_hold_is_counted(self) -> None:
        groups = self.world.groups
        assert groups.member_bytes.of_coordinator.total == counted_again(groups)

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        for ticket in self.world.waiting:
            waited_ms = self.world.now_ms - self.asked_at_ms[ticket]
            assert waited_ms <= 2 * (NEWCOMER_MS + REBALANCE_MS)

    @invariant()
    def every_member_is_watched(self) -> None:
        group = self.world.groups.classic(GROUP)
        if group is None:
            return
        for member_id in (*group.members, *group.pending):
            assert ("session", GROUP, member_id) in self.world.timers
        if group.state is GroupState.PREPARING_REBALANCE:
            assert ("join", GROUP) in self.world.timers
            assert group.initial_delay is not None or not group.all_have_joined
        if group.unsynced:
            assert ("sync", GROUP) in self.world.timers

    @invariant()
    def the_log_tells_what_counts(self) -> None:
        if self.checked == len(self.world.log):
            return
        self.checked = len(self.world.log)
        replayed, live = self.world.replayed(), self.world.groups
        assert replayed.offsets.of_group(GROUP) == live.offsets.of_group(GROUP)
        ours, theirs = live.classic(GROUP), replayed.classic(GROUP)
        if ours is None or ours.state not in (GroupState.STABLE, GroupState.EMPTY):
            return
        if theirs is None:
            assert not ours.members
            return
        facts = [
            (
                group.state,
                group.generation,
                group.protocol,
                group.leader,
                {
                    it.member_id: (it.instance_id, it.assignment, it.session_timeout_ms)
                    for it in group.members.values()
                },
            )
            for group in (ours, theirs)
        ]
        assert facts[0] == facts[1]

    def teardown(self) -> None:
        """When all clients stop, the group becomes empty and every request got a response."""
        if not hasattr(self, "world"):
            return
        self.world.pass_time(10 * (NEWCOMER_MS + REBALANCE_MS))
        self.listen()
        assert not self.world.waiting
        group = self.world.groups.classic(GROUP)
        assert group is None or group.state is GroupState.EMPTY


def error_of(code: int) -> ErrorCode:
    return next(it for it in ErrorCode if it == code)


TestGroupHistories = pytest.mark.slow(GroupHistories.TestCase)
TestGroupHistories.settings = settings(
    max_examples=1000, stateful_step_count=30, report_multiple_bugs=False
)
