"""Regular expressions that take more than one slice, and the heartbeats that wait for them."""

from __future__ import annotations

import pytest

from pykbroker.coordination.groups.consumer_decision import MATCHING
from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
from pykbroker_protocol.errors import ErrorCode
from tests.coordination.consumer.clients import Consumer
from tests.coordination.consumer.world import World

LONG = "orders.*|" + "x" * 9_980
"""Long enough that compiling and matching take several slices."""
COSTLY = ".*".join(f"(.{{0,{count}}}a|b)" for count in range(60, 100))
SETTINGS = ConsumerGroupSettings(assignment_interval_ms=0, regexes_max=2)
LATER_MS = SETTINGS.regex_refresh_interval_ms


def world_with_orders() -> World:
    world = World(SETTINGS)
    world.topics.put("orders", 6)
    return world


def slice_of_matching(world: World) -> None:
    world.deferred.remove((MATCHING,))
    world.carry_out(world.groups.timer((MATCHING,), world.now_ms))


def test_a_heartbeat_with_a_long_expression_waits_and_changes_nothing_until_it_is_matched() -> None:
    world = world_with_orders()
    anna, bob = Consumer(world, "anna", regex=LONG), Consumer(world, "bob", ["orders"])
    sent = anna.send()
    assert world.deferred == [(MATCHING,)]
    assert not world.log
    slice_of_matching(world)
    ticket = bob.send()
    assert list(world.state.members) == ["bob"]
    world.go_on()
    assert bob.take(ticket) is ErrorCode.NONE
    assert anna.take(sent) is ErrorCode.NONE
    assert bob.beat() is ErrorCode.NONE
    assert anna.beat() is ErrorCode.NONE
    assert len(anna.owned) == 3
    world.check()


def test_all_members_that_wait_for_the_same_expression_are_answered() -> None:
    world = world_with_orders()
    members = [Consumer(world, name, regex=LONG) for name in ("anna", "bob", "cleo")]
    sent = [(member, member.send()) for member in members]
    world.go_on()
    assert [member.take(ticket) for member, ticket in sent] == [ErrorCode.NONE] * 3
    assert list(world.state.regexes) == [LONG]
    world.check()


def test_expressions_of_several_groups_are_matched_in_turn() -> None:
    world = world_with_orders()
    anna, bob = (
        Consumer(world, "anna", regex=LONG),
        Consumer(world, "bob", regex="b.*|" + LONG[:-9]),
    )
    sent = [(it, it.send()) for it in (anna, bob)]
    assert world.deferred == [(MATCHING,)]
    world.go_on()
    assert [member.take(ticket) for member, ticket in sent] == [ErrorCode.NONE] * 2
    assert set(world.state.regexes) == {anna.regex, bob.regex}


def test_an_expression_that_costs_too_much_is_refused_after_some_slices() -> None:
    world = world_with_orders()
    for index in range(10):
        world.topics.put(f"{'ab' * 100}{index}", 1)
    anna = Consumer(world, "anna", regex=COSTLY)
    sent = anna.send()
    slices = 0
    while world.deferred:
        slice_of_matching(world)
        slices += 1
    answer = world.heartbeat_answer(sent)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message is not None
    assert answer.error_message.endswith("expression too costly to match.")
    assert slices > 100
    assert not world.log


def test_the_expression_of_a_disconnected_client_is_removed_from_the_queue() -> None:
    world = world_with_orders()
    anna, bob = Consumer(world, "anna", regex=LONG), Consumer(world, "bob", regex=LONG[:-1])
    gone, sent = anna.send(), bob.send()
    slice_of_matching(world)
    world.groups.cancel_requests([gone])
    world.go_on()
    assert bob.take(sent) is ErrorCode.NONE
    assert list(world.state.members) == ["bob"]
    assert gone not in world.answers
    world.groups.cancel_requests([anna.send()])
    world.go_on()
    assert not world.groups.consumer.matchings


def test_a_known_expression_keeps_its_topics_while_it_is_matched_again() -> None:
    world = world_with_orders()
    anna = Consumer(world, "anna", regex=LONG)
    anna.beat()
    assert len(anna.owned) == 6
    world.topics.put("orders-late", 2)
    world.pass_time(LATER_MS)
    assert anna.take(anna.send()) is ErrorCode.NONE
    assert len(anna.owned) == 6
    world.go_on()
    assert world.state.regexes[LONG].names == {"orders", "orders-late"}
    anna.beat()
    assert len(anna.owned) == 8
    world.check()


def test_an_expression_whose_last_member_leaves_while_it_is_matched_again_is_dropped() -> None:
    world = world_with_orders()
    anna = Consumer(world, "anna", regex=LONG)
    anna.beat()
    world.topics.put("orders-late", 2)
    world.pass_time(LATER_MS)
    anna.take(anna.send())
    anna.leave()
    world.go_on()
    assert not world.groups.consumer.matchings
    assert not world.state.regexes
    world.check()


def test_many_short_expressions_share_the_effort_of_one_heartbeat() -> None:
    settings = ConsumerGroupSettings(assignment_interval_ms=0)
    world = World(settings)
    for index in range(300):
        world.topics.put(f"{'o' * 200}-{index}", 1)
    members = [Consumer(world, f"m{it}", regex=f"o*-{it}") for it in range(10)]
    for member in members:
        member.beat()
    world.topics.put(f"{'o' * 200}-late", 1)
    world.pass_time(settings.regex_refresh_interval_ms)
    members[0].take(members[0].send())
    assert any(len(name) == 3 and name[0] == MATCHING for name in world.deferred)
    world.go_on()
    world.check()


@pytest.mark.parametrize("regex", ["third", LONG])
def test_a_group_uses_a_bounded_number_of_expressions(regex: str) -> None:
    world = world_with_orders()
    anna, bob = Consumer(world, "anna", regex="one"), Consumer(world, "bob", regex="two")
    cleo = Consumer(world, "cleo", regex=regex)
    assert (anna.beat(), bob.beat()) == (ErrorCode.NONE, ErrorCode.NONE)
    reasons = len(world.reasons)
    refused = cleo.send()
    assert world.heartbeat_answer(refused).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "group.consumer.max.regexes" in str(world.heartbeat_answer(refused).error_message)
    assert "group.consumer.max.regexes" in world.reasons[-1]
    assert len(world.reasons) == reasons + 1
    cleo.regex = "two"
    assert cleo.beat() is ErrorCode.NONE
    anna.regex = regex
    anna.start_afresh()
    assert anna.beat() is ErrorCode.NONE
    assert set(world.state.regexes) == {"two", regex}
