import base64
import time
import uuid

from pykbroker.clock import Clock, Randomness, SystemClock, SystemRandomness


def test_the_system_clock_returns_the_time_of_the_operating_system() -> None:
    clock: Clock = SystemClock()
    before = time.time() * 1000 - 1
    assert before <= clock.now_ms() <= time.time() * 1000 + 1
    assert clock.monotonic() <= clock.monotonic()


def test_random_ids_do_not_start_with_a_dash() -> None:
    randomness: Randomness = SystemRandomness()
    drawn = {randomness.uuid_bytes() for _ in range(1000)}
    assert len(drawn) == 1000
    assert {uuid.UUID(bytes=each).version for each in drawn} == {4}
    assert not any(base64.urlsafe_b64encode(each).startswith(b"-") for each in drawn)


def test_random_numbers_cover_the_whole_range_below_the_bound() -> None:
    randomness: Randomness = SystemRandomness()
    assert {randomness.below(3) for _ in range(200)} == {0, 1, 2}
    assert randomness.below(1) == 0
