"""Failures of a partition as values: delays, and the failures that are logged."""

from __future__ import annotations

import pytest

from pykbroker.replication.fetch_state import (
    FetchState,
    Reaction,
    after_failure,
    after_success,
    reaction_to,
)
from pykbroker.replication.fetcher_assignment import fetcher_of
from pykbroker_protocol.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize(
    ("error", "current_epoch", "expected"),
    [
        (E.OFFSET_OUT_OF_RANGE, 3, Reaction.ADJUST_OFFSET),
        (E.FENCED_LEADER_EPOCH, 3, Reaction.AWAIT_METADATA),
        (E.FENCED_LEADER_EPOCH, 4, Reaction.RETRY),
        (E.UNKNOWN_LEADER_EPOCH, 3, Reaction.RETRY),
        (E.NOT_LEADER_OR_FOLLOWER, 3, Reaction.RETRY),
        (E.UNKNOWN_TOPIC_ID, 3, Reaction.RETRY),
        (E.INCONSISTENT_TOPIC_ID, 3, Reaction.RETRY),
        (E.CORRUPT_MESSAGE, 3, Reaction.RETRY),
    ],
)
def test_reaction_to_an_error_of_a_request_in_epoch_3(
    error: ErrorCode, current_epoch: int, expected: Reaction
) -> None:
    assert reaction_to(error, requested_epoch=3, current_epoch=current_epoch) is expected


def fail(state: FetchState, *, is_transient: bool, now: float = 10) -> tuple[FetchState, bool]:
    failed = after_failure(state, now=now, backoff_seconds=1, is_transient=is_transient)
    return failed.state, failed.is_new


def test_a_failure_delays_the_partition_and_is_reported_once() -> None:
    state, is_new = fail(FetchState(leader_epoch=3), is_transient=False)
    assert is_new
    assert not state.is_ready(10.9)
    assert state.is_ready(11)
    state, is_new = fail(state, is_transient=False, now=11)
    assert not is_new
    assert state.failing_since == 10
    assert after_success(state, 0) == FetchState(leader_epoch=3, lag=0)


def test_an_error_of_a_moving_leader_is_reported_if_it_persists() -> None:
    state, reported = FetchState(leader_epoch=3), []
    for now in (10.0, 10.02, 11.0, 11.99, 12.0, 13.0):
        state, is_new = fail(state, is_transient=True, now=now)
        reported.append(is_new)
    assert reported == [False] * 4 + [True, False]


def test_retries_of_a_moving_leader_begin_early_and_slow_down_to_the_backoff() -> None:
    state, delays = FetchState(leader_epoch=3), []
    for _ in range(8):
        state, _ = fail(state, is_transient=True, now=10)
        delays.append(round(state.delayed_until - 10, 3))
    assert delays == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1, 1]


def test_a_partition_is_in_sync_after_a_response_without_lag() -> None:
    state = FetchState(leader_epoch=3)
    assert not state.is_in_sync
    assert not after_success(state, 5).is_in_sync
    assert after_success(state, 0).is_in_sync


def test_a_fenced_partition_is_never_ready() -> None:
    failed = after_failure(
        FetchState(leader_epoch=3), now=0, backoff_seconds=1, is_transient=True, is_fenced=True
    )
    assert not failed.state.is_ready(1e9)


def test_partitions_of_a_topic_are_spread_over_the_fetchers_of_a_leader() -> None:
    found = [fetcher_of("orders", index, leader=7, fetchers=3) for index in range(6)]
    assert {it.leader for it in found} == {7}
    assert sorted(it.number for it in found) == [0, 0, 1, 1, 2, 2]
    assert found == [fetcher_of("orders", index, leader=7, fetchers=3) for index in range(6)]
