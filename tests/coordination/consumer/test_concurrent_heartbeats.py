"""Heartbeats of one moment are all accepted before a new target is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.coordination.groups.consumer_assignment import SHARING_EFFORT, WRITING_EFFORT
from pykbroker.coordination.groups.consumer_decision import ASSIGNMENT
from pykbroker.coordination.groups.consumer_group import ANSWERING_EFFORT, MEMBER_EFFORT
from pykbroker.coordination.groups.consumer_member import LEAVING_TEMPORARILY
from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
from pykbroker.coordination.outcome import Outcome
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.consumer_groups import (
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pykbroker_protocol.messages.leave_group import MemberIdentity
from tests.coordination.consumer.clients import ClassicConsumer, Consumer
from tests.coordination.consumer.world import GROUP, World

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker_protocol.message import Message

AT_EACH_JOIN = ConsumerGroupSettings(assignment_interval_ms=0)


def world_with_orders() -> World:
    world = World(AT_EACH_JOIN)
    world.topics.put("orders", 6)
    return world


def together(consumers: Iterable[Consumer]) -> list[ErrorCode]:
    """Returns the responses by ticket."""
    sent = [(consumer, consumer.send()) for consumer in consumers]
    sent[0][0].world.go_on()
    return [consumer.take(ticket) for consumer, ticket in sent]


def assignments_written(world: World) -> int:
    return sum(isinstance(it.key, ConsumerGroupTargetAssignmentMetadataKey) for it in world.written)


def test_members_that_join_together_get_their_share_of_one_assignment() -> None:
    world = world_with_orders()
    consumers = [Consumer(world, name, ["orders"]) for name in ("anna", "bob", "cleo")]
    assert together(consumers) == [ErrorCode.NONE] * 3
    assert [(it.epoch, len(it.owned)) for it in consumers] == [(4, 2)] * 3
    assert len(frozenset[object]().union(*(it.owned for it in consumers))) == 6
    assert assignments_written(world) == 1
    world.check()


def test_a_heartbeat_during_joins_gets_the_new_assignment() -> None:
    world = world_with_orders()
    anna, bob = Consumer(world, "anna", ["orders"]), Consumer(world, "bob", ["orders"])
    anna.beat()
    assert len(anna.owned) == 6
    together([bob, anna])
    assert len(anna.assigned) == 3


def test_heartbeats_do_not_wait_if_no_assignment_is_due() -> None:
    world = world_with_orders()
    anna = Consumer(world, "anna", ["orders"])
    anna.beat()
    assert anna.take(anna.send()) is ErrorCode.NONE
    assert not world.deferred


def test_a_waiting_member_that_is_removed_gets_unknown_member_id() -> None:
    world = world_with_orders()
    anna, bob = Consumer(world, "anna", ["orders"]), Consumer(world, "bob", ["orders"])
    sent = {it.member_id: it.send() for it in (anna, bob)}
    world.leaving_arrives(MemberIdentity(member_id="bob"))
    world.go_on()
    refused = world.heartbeat_answer(sent["bob"])
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.error_message == f"Member bob is not a member of group {GROUP}."
    assert anna.take(sent["anna"]) is ErrorCode.NONE
    assert len(anna.owned) == 6


def test_a_waiting_member_that_leaves_temporarily_stays_away() -> None:
    world = world_with_orders()
    anna = Consumer(world, "anna", ["orders"], instance_id="berth")
    sent = anna.send()
    anna.leave(LEAVING_TEMPORARILY)
    assert anna.take(sent) is ErrorCode.UNKNOWN_MEMBER_ID
    bob = Consumer(world, "bob", ["orders"], instance_id="berth")
    assert bob.beat() is ErrorCode.NONE
    assert len(bob.owned) == 6


@pytest.mark.parametrize("is_shared_out", [False, True])
def test_a_waiting_member_is_unknown_after_a_downgrade(
    is_shared_out: bool,  # noqa: FBT001 - by name
) -> None:
    world = world_with_orders()
    olga = ClassicConsumer(world, "", ["orders"], name="olga")
    olga.beat()
    anna = Consumer(world, "anna", ["orders"])
    sent = anna.send()
    if is_shared_out:
        world.go_one_step()
    assert world.find() is not None
    world.leaving_arrives(MemberIdentity(member_id="anna"))
    assert world.find() is None
    world.go_on()
    assert anna.take(sent) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_later_heartbeat_does_not_replace_waiting_ones() -> None:
    world = world_with_orders()
    anna, bob = Consumer(world, "anna", ["orders"]), Consumer(world, "bob", ["orders"])
    sent = [anna.send()]
    for _ in range(2):
        world.go_one_step()
        sent.append(bob.send())
        world.deferred.reverse()  # the second target before the first answer
    world.go_on()
    assert [world.heartbeat_answer(it).error_code for it in sent] == [ErrorCode.NONE] * 3


def test_owned_partitions_of_a_waiting_heartbeat_expire_after_a_newer_response() -> None:
    world = world_with_orders()
    anna = Consumer(world, "anna", ["orders"])
    first = anna.send()
    world.go_one_step()  # computes the assignment
    assert anna.take(anna.send()) is ErrorCode.NONE
    assert len(anna.owned) == 6
    olga = ClassicConsumer(world, "olga", ["orders"])
    world.arrive(
        lambda ticket: world.groups.join_group(
            olga.join_request(), ticket=ticket, version=9, **world.sender("olga")
        )
    )
    world.go_on()
    assert world.heartbeat_answer(first).error_code == ErrorCode.NONE
    assert sum(map(len, world.state.members["anna"].revoking.values())) == 3


def test_a_heartbeat_of_a_lost_connection_counts_without_a_response() -> None:
    world = world_with_orders()
    anna, bob = Consumer(world, "anna", ["orders"]), Consumer(world, "bob", ["orders"])
    sent, forgotten = anna.send(), bob.send()
    world.groups.cancel_requests([forgotten])
    world.go_on()
    assert anna.take(sent) is ErrorCode.NONE
    assert len(anna.owned) == 3
    assert forgotten not in world.answers
    assert bob.beat() is ErrorCode.NONE
    assert len(bob.owned) == 3


def test_a_target_that_cannot_be_written_has_no_effect() -> None:
    world = world_with_orders()
    anna = Consumer(world, "anna", ["orders"])
    world.groups.cancel_requests([anna.send()])
    world.deferred.clear()
    assert world.groups.timer((ASSIGNMENT, GROUP), world.now_ms).writes
    assert not world.groups.consumer.assigned


def world_with_many_topics(assignor: str = "uniform") -> World:
    world = World(ConsumerGroupSettings(assignment_interval_ms=0, assignors=(assignor,)))
    for index in range(400):
        world.topics.put(f"topic-{index}", 1)
    return world


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_large_assignment_is_computed_written_and_sent_in_slices(assignor: str) -> None:
    """A slice has a limited effort; each member here has a share of some topics."""
    world = world_with_many_topics(assignor)
    names = [f"topic-{it}" for it in range(400)]
    consumers = [Consumer(world, f"c{it}", names) for it in range(20)]
    sent = [(consumer, consumer.send()) for consumer in consumers]
    share_max = SHARING_EFFORT // WRITING_EFFORT + 400 // (1 if assignor == "range" else 20)
    slices = 0
    while world.deferred:
        world.written.clear()
        answered_before = len(world.answers)
        world.go_one_step()
        slices += 1
        assert topics_written(world, ConsumerGroupTargetAssignmentMemberValue) <= share_max
        assert len(world.answers) - answered_before <= ANSWERING_EFFORT // MEMBER_EFFORT + 1
    assert slices > 3
    assert [consumer.take(ticket) for consumer, ticket in sent] == [ErrorCode.NONE] * 20
    assert assignments_written(world) <= 1
    assert sum(len(it.owned) for it in consumers) == 400
    world.check()


def topics_written(world: World, kind: type[Message]) -> int:
    values: list[Any] = [it.value for it in world.written if isinstance(it.value, kind)]
    return sum(len(it.topic_partitions) for it in values)


def test_a_member_that_joins_during_a_computation_waits_for_the_next_target() -> None:
    world = world_with_many_topics()
    names = [f"topic-{it}" for it in range(400)]
    consumers = [Consumer(world, f"c{it}", names) for it in range(20)]
    sent = [(consumer, consumer.send()) for consumer in consumers]
    world.go_one_step()
    assert world.group.assignment_task is not None
    late = Consumer(world, "late", names)
    consumers.append(late)
    sent.append((late, late.send()))
    world.go_on()
    assert [consumer.take(ticket) for consumer, ticket in sent] == [ErrorCode.NONE] * 21
    assert assignments_written(world) == 2
    for _ in range(3):
        for consumer in consumers:
            consumer.beat()
    assert sum(len(it.owned) for it in consumers) == 400
    world.check()


@pytest.mark.parametrize("instance_id", [None, "berth"])
def test_a_member_that_leaves_during_a_computation_gets_no_share(instance_id: str | None) -> None:
    world = world_with_many_topics()
    names = [f"topic-{it}" for it in range(400)]
    first = Consumer(world, "first", names, instance_id=instance_id)
    first.beat()
    others = [Consumer(world, f"c{it}", names) for it in range(20)]
    sent = [(consumer, consumer.send()) for consumer in others]
    world.go_one_step()
    assert world.group.assignment_task is not None
    world.leaving_arrives(MemberIdentity(member_id="first"))
    world.go_on()
    assert [consumer.take(ticket) for consumer, ticket in sent] == [ErrorCode.NONE] * 20
    assert "first" not in world.state.targets
    for _ in range(3):
        for consumer in others:
            consumer.beat()
    assert sum(len(it.owned) for it in others) == 400
    world.check()


def test_the_successor_of_a_static_member_gets_the_share_computed_for_it() -> None:
    world = world_with_many_topics()
    names = [f"topic-{it}" for it in range(400)]
    first = Consumer(world, "first", names, instance_id="berth")
    first.beat()
    others = [Consumer(world, f"c{it}", names) for it in range(20)]
    for consumer in others:
        consumer.send()
    world.go_one_step()
    assert world.group.assignment_task is not None
    away = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="first",
        member_epoch=LEAVING_TEMPORARILY,
        instance_id="berth",
    )
    world.heartbeat_arrives(away)
    second = Consumer(world, "second", names, instance_id="berth")
    second.send()
    world.go_on()
    assert "first" not in world.state.targets
    assert 0 < sum(map(len, world.state.target_of("second").values())) <= 20
    world.check()


def test_a_failed_write_between_two_slices_is_repeated() -> None:
    world = world_with_many_topics()
    names = [f"topic-{it}" for it in range(400)]
    consumers = [Consumer(world, f"c{it}", names) for it in range(20)]
    for consumer in consumers:
        consumer.send()
    lost = None
    while world.deferred:
        name = world.deferred.pop(0)
        outcome = world.groups.timer(name, world.now_ms)
        if outcome.writes and lost is None:
            lost, outcome = outcome, Outcome(deferred=(name,))
        world.carry_out(outcome)
    assert lost is not None
    for _ in range(3):
        for consumer in consumers:
            consumer.beat()
    assert sum(len(it.owned) for it in consumers) == 400
    world.check()
