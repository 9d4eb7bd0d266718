"""Registration, heartbeats, fencing and shutdown of a broker as a pure state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.membership.lifecycle import (
    BACKOFF_SECONDS,
    BACKOFF_SECONDS_MAX,
    CATCH_UP_SECONDS_MAX,
    LEAVE_SECONDS_MAX,
    LEAVE_UNANSWERED_SECONDS_MAX,
    NO_SESSION,
    TRANSITIONS,
    UNKNOWN_EPOCH,
    Event,
    Heartbeat,
    Lifecycle,
    Metadata,
    Nothing,
    Phase,
    Registration,
    Timing,
    Wait,
    answered,
    checked,
    directory_failed,
    failed,
    has_registration_timed_out,
    moved,
    next_request,
    ready,
    refused,
    registered,
    rejected,
    sent,
    stopping,
)
from pykbroker_protocol.errors import ErrorCode

TIMING = Timing(session=9.0, heartbeat=2.0, initial_registration=60.0)
NEW = Lifecycle(timing=TIMING)
EPOCH = 920
CURRENT = Metadata(offset=921, registered_epoch=EPOCH, complete_at=1e9)
DIRECTORY = b"directory of 004"

FENCED = registered(NEW, EPOCH, 10.0)
UNFENCED = answered(
    sent(ready(FENCED, 10.0)), is_fenced=False, should_shut_down=False, sent_at=10.0, now=10.1
)
LEAVING = stopping(UNFENCED, 11.0)


def heartbeat(state: Lifecycle, metadata: Metadata, now: float) -> Heartbeat:
    request = next_request(state, metadata, now)
    assert isinstance(request, Heartbeat)
    return request


# --- phases

TABLE = """
                   REGISTERING  FENCED       UNFENCED     LEAVING
REGISTERED         FENCED       -            -            -
UNFENCING_GRANTED  -            UNFENCED     -            -
FENCING_SEEN       -            -            FENCED       -
REGISTRATION_LOST  -            REGISTERING  REGISTERING  STOPPED
STOP_REQUESTED     STOPPED      STOPPED      LEAVING      -
SHUTDOWN_GRANTED   -            -            -            STOPPED
GIVEN_UP           -            -            -            STOPPED
"""


def test_the_transitions_are_those_of_this_table() -> None:
    columns, *rows = (line.split() for line in TABLE.strip().splitlines())
    expected = {
        Event[name]: {
            Phase[column]: Phase[cell]
            for column, cell in zip(columns, cells, strict=True)
            if cell != "-"
        }
        for name, *cells in rows
    }
    assert expected == TRANSITIONS


@pytest.mark.parametrize("event", Event)
def test_a_stopped_broker_stays_stopped(event: Event) -> None:
    stopped = replace(NEW, phase=Phase.STOPPED)
    assert moved(stopped, event) is stopped
    assert next_request(stopped, CURRENT, 5.0) == Nothing()


# --- registration


def test_the_first_registration_contains_the_epoch_of_the_clean_shutdown() -> None:
    assert next_request(NEW, CURRENT, 0.0, previous_epoch=77) == Registration(77)


def test_a_repeated_first_registration_contains_it_too() -> None:
    state = failed(NEW, 0.0)
    assert next_request(state, CURRENT, state.due_at, previous_epoch=77) == Registration(77)


def test_a_later_registration_of_the_process_claims_no_clean_shutdown() -> None:
    lost = rejected(UNFENCED, ErrorCode.STALE_BROKER_EPOCH, 20.0)
    assert lost.phase is Phase.REGISTERING
    assert next_request(lost, CURRENT, 20.0, previous_epoch=77) == Registration(UNKNOWN_EPOCH)


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
@pytest.mark.parametrize("state", [FENCED, UNFENCED])
def test_a_lost_registration_is_repeated_at_once(state: Lifecycle, code: ErrorCode) -> None:
    lost = rejected(state, code, 20.0)
    assert lost.is_fenced_at(20.0)
    assert isinstance(next_request(lost, CURRENT, 20.0), Registration)


def test_refused_registrations_are_repeated_until_the_timeout() -> None:
    state = refused(NEW, 5.0)
    assert isinstance(next_request(state, CURRENT, 5.0), Wait)
    assert isinstance(next_request(state, CURRENT, state.due_at), Registration)
    state = refused(state, 40.0)
    assert not has_registration_timed_out(state, 64.9)
    assert has_registration_timed_out(state, 65.0)


def test_time_without_a_controller_is_not_a_refusal() -> None:
    state = failed(failed(NEW, 5.0), 40.0)
    assert not has_registration_timed_out(state, 1e6)


def test_the_pause_after_failures_is_bounded() -> None:
    state, now = NEW, 0.0
    pauses = []
    for _ in range(100):
        state = failed(state, now)
        pauses.append(state.due_at - now)
        now = state.due_at
    assert pauses[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert pauses[-1] == pytest.approx(BACKOFF_SECONDS_MAX)


# --- unfencing


def test_a_heartbeat_waits_for_the_metadata_with_the_registration() -> None:
    older = CURRENT._replace(registered_epoch=UNKNOWN_EPOCH)
    assert isinstance(next_request(FENCED, older, 10.0), Wait)
    late = heartbeat(FENCED, older, 10.0 + CATCH_UP_SECONDS_MAX)
    assert late.asks_for_fencing
    assert not late.is_caught_up
    assert heartbeat(FENCED, CURRENT, 10.0).is_caught_up


def test_a_broker_asks_for_fencing_until_it_is_ready() -> None:
    assert heartbeat(FENCED, CURRENT, 10.0).asks_for_fencing
    assert not heartbeat(ready(FENCED, 10.0), CURRENT, 10.0).asks_for_fencing


def test_a_broker_that_becomes_ready_during_a_heartbeat_sends_the_next_at_once() -> None:
    state = ready(sent(FENCED), 10.05)
    state = answered(state, is_fenced=True, should_shut_down=False, sent_at=10.0, now=10.1)
    assert state.phase is Phase.FENCED
    assert not heartbeat(state, CURRENT, 10.1).asks_for_fencing


def test_an_unfenced_broker_sends_a_heartbeat_per_interval() -> None:
    assert UNFENCED.phase is Phase.UNFENCED
    assert next_request(UNFENCED, CURRENT, 10.2) == Wait(12.0)
    assert heartbeat(UNFENCED, CURRENT, 12.0) == Heartbeat(
        epoch=EPOCH,
        offset=921,
        asks_for_fencing=False,
        asks_for_shutdown=False,
        offline_directories=frozenset(),
        is_caught_up=True,
    )


def test_a_failed_heartbeat_is_repeated_before_the_interval() -> None:
    state = failed(UNFENCED, 12.5)
    assert state.phase is Phase.UNFENCED
    assert state.due_at < 13.0


# --- fencing


def test_the_session_is_counted_from_the_time_the_heartbeat_was_sent() -> None:
    assert not UNFENCED.is_fenced_at(18.9)
    assert UNFENCED.is_fenced_at(19.0)


def test_a_broker_without_a_session_counts_as_fenced() -> None:
    assert NEW.session_ends_at == NO_SESSION
    assert NEW.is_fenced_at(0.0)
    assert FENCED.is_fenced_at(10.0)


def test_a_pause_longer_than_the_session_fences_the_broker() -> None:
    state = checked(UNFENCED, 40.0)
    assert state.phase is Phase.FENCED
    assert state.is_fenced_at(40.0)


def test_after_a_pause_the_broker_reads_newer_metadata_before_its_heartbeat() -> None:
    state = checked(UNFENCED, 40.0)
    stale = CURRENT._replace(complete_at=39.9)
    assert isinstance(next_request(state, stale, 40.0), Wait)
    assert not heartbeat(state, CURRENT._replace(complete_at=40.0), 40.1).asks_for_fencing


def test_a_broker_that_cannot_read_metadata_asks_for_fencing() -> None:
    state = checked(UNFENCED, 40.0)
    stale = CURRENT._replace(complete_at=39.9)
    assert heartbeat(state, stale, 40.0 + CATCH_UP_SECONDS_MAX).asks_for_fencing


def test_an_answer_that_arrives_after_the_session_does_not_unfence() -> None:
    state = ready(FENCED, 10.0)
    late = answered(state, is_fenced=False, should_shut_down=False, sent_at=10.0, now=40.0)
    assert late.phase is Phase.FENCED
    assert late.is_fenced_at(40.0)
    stale = CURRENT._replace(complete_at=39.9)
    assert isinstance(next_request(late, stale, 40.0), Wait)


def test_a_controller_that_answers_fenced_ends_the_session() -> None:
    state = answered(UNFENCED, is_fenced=True, should_shut_down=False, sent_at=12.0, now=12.1)
    assert state.phase is Phase.FENCED
    assert state.is_fenced_at(12.1)


# --- offline directories


def test_a_failed_directory_is_reported_at_once_and_in_each_heartbeat() -> None:
    state = directory_failed(UNFENCED, DIRECTORY, 10.5)
    assert heartbeat(state, CURRENT, 10.5).offline_directories == {DIRECTORY}
    state = answered(
        state,
        is_fenced=False,
        should_shut_down=False,
        reported_directories=frozenset({DIRECTORY}),
        sent_at=10.6,
        now=10.7,
    )
    assert state.reported_directories == {DIRECTORY}
    assert heartbeat(state, CURRENT, state.due_at).offline_directories == {DIRECTORY}


# --- controlled shutdown


def test_an_unfenced_broker_asks_for_a_controlled_shutdown_at_once() -> None:
    assert LEAVING.phase is Phase.LEAVING
    request = heartbeat(LEAVING, CURRENT, 11.0)
    assert request.asks_for_shutdown
    assert not request.asks_for_fencing


@pytest.mark.parametrize("state", [NEW, FENCED])
def test_a_broker_that_cannot_lead_stops_at_once(state: Lifecycle) -> None:
    assert stopping(state, 11.0).phase is Phase.STOPPED


def test_the_shutdown_ends_when_the_controller_grants_it() -> None:
    waiting = answered(LEAVING, is_fenced=False, should_shut_down=False, sent_at=11.0, now=11.1)
    assert waiting.phase is Phase.LEAVING
    granted = answered(waiting, is_fenced=True, should_shut_down=True, sent_at=11.2, now=11.3)
    assert granted.phase is Phase.STOPPED
    assert granted.is_fenced_at(11.3)


def test_the_shutdown_is_given_up_without_a_controller_or_after_its_time_limit() -> None:
    repeated = failed(LEAVING, 11.5)  # the controllers can be electing a leader
    assert repeated.phase is Phase.LEAVING
    assert repeated.due_at == 11.5 + BACKOFF_SECONDS
    assert failed(repeated, 11.0 + LEAVE_UNANSWERED_SECONDS_MAX).phase is Phase.STOPPED
    assert checked(LEAVING, 10.9 + LEAVE_SECONDS_MAX).phase is Phase.LEAVING
    assert checked(LEAVING, 11.0 + LEAVE_SECONDS_MAX).phase is Phase.STOPPED


def test_a_session_that_ended_before_the_answer_does_not_continue() -> None:
    """A controller that has elected others unfences the broker in its next heartbeat."""
    late = answered(UNFENCED, is_fenced=False, should_shut_down=False, sent_at=18.0, now=19.5)
    assert late.phase is Phase.FENCED
    assert late.is_fenced_at(19.5)
    assert late.lapsed_at == 19.5


# --- a property


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 30.0), st.floats(0.0, 12.0), st.booleans(), st.booleans(), st.booleans()
        ),
        max_size=30,
    )
)
def test_a_broker_never_leads_beyond_the_session_that_a_controller_granted(
    steps: list[tuple[float, float, bool, bool, bool]],
) -> None:
    """Each step: a pause, the time of a heartbeat, and how the controller answers it."""
    state, now, granted_until = ready(registered(NEW, EPOCH, 0.0), 0.0), 0.0, NO_SESSION
    for pause, seconds, is_answered, is_fenced, is_lost in steps:
        sent_at = now = now + pause
        state = checked(state, now)
        now += seconds
        if not is_answered:
            state = failed(state, now)
        elif is_lost:
            state = registered(rejected(state, ErrorCode.STALE_BROKER_EPOCH, now), EPOCH, now)
            granted_until = NO_SESSION
        else:
            state = answered(
                state, is_fenced=is_fenced, should_shut_down=False, sent_at=sent_at, now=now
            )
            granted_until = NO_SESSION if is_fenced else sent_at + TIMING.session
        for later in (now, now + 1.0, now + 20.0):
            assert state.is_fenced_at(later) or later < granted_until
        if checked(state, now).phase is Phase.UNFENCED:
            assert not state.is_fenced_at(now)
