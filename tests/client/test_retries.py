"""The table of recoveries, and the pace of attempts."""

import pytest

from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.retries import (
    BACKOFF_SECONDS,
    BACKOFF_SECONDS_MAX,
    JITTER,
    RECOVERIES,
    Attempts,
    Recovery,
    recovery_from,
)
from pykbroker_protocol.errors import ErrorCode
from tests.client.scripted_client import FixedRandomness, ManualClock


@pytest.mark.parametrize("error", ErrorCode)
def test_an_error_without_a_row_is_retried_if_the_protocol_calls_it_retriable(
    error: ErrorCode,
) -> None:
    default = Recovery.RETRY if error.retriable else Recovery.NONE
    assert recovery_from(error) is RECOVERIES.get(error, default)


def test_errors_with_another_recovery_than_rejoin_are_retriable_in_the_protocol() -> None:
    final = (Recovery.NONE, Recovery.REJOIN)
    assert all(it.retriable for it, recovery in RECOVERIES.items() if recovery not in final)


async def pauses(seconds: float, fraction: float = 0.0) -> list[float]:
    clock = ManualClock()
    attempts = Attempts(
        ConnectionOptions(clock=clock, randomness=FixedRandomness(fraction)), seconds
    )
    found = []
    before = clock.seconds
    while await attempts.pause():
        found.append(clock.seconds - before)
        before = clock.seconds
    return found


async def test_pauses_double_up_to_a_bound_until_the_deadline() -> None:
    found = await pauses(4.0)
    assert found == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])
    assert found[0] == BACKOFF_SECONDS
    assert max(found) <= BACKOFF_SECONDS_MAX


async def test_jitter_lengthens_each_pause() -> None:
    assert await pauses(0.05, fraction=0.5) == pytest.approx([BACKOFF_SECONDS * (1 + JITTER / 2)])


async def test_no_attempt_follows_a_deadline_that_has_passed() -> None:
    assert await pauses(-1.0) == []


async def test_progress_restarts_deadline_and_backoff() -> None:
    clock = ManualClock()
    options = ConnectionOptions(clock=clock, randomness=FixedRandomness(0.0))
    attempts = Attempts(options, 0.25)
    assert [await attempts.pause() for _ in range(3)] == [True, True, False]
    attempts.restart()
    before = clock.seconds
    assert await attempts.pause()
    assert clock.seconds - before == pytest.approx(BACKOFF_SECONDS)
