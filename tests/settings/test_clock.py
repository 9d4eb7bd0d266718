import base64
import time
import uuid

from pykbroker.clock import Chance, Clock, SystemChance, SystemClock


def test_the_systems_clock_tells_the_systems_time() -> None:
    clock: Clock = SystemClock()
    before = time.time() * 1000 - 1
    assert before <= clock.now_ms() <= time.time() * 1000 + 1
    assert clock.monotonic() <= clock.monotonic()


def test_ids_are_random_uuids_that_no_command_line_takes_for_an_option() -> None:
    chance: Chance = SystemChance()
    drawn = {chance.uuid_bytes() for _ in range(1000)}
    assert len(drawn) == 1000
    assert {uuid.UUID(bytes=each).version for each in drawn} == {4}
    assert not any(base64.urlsafe_b64encode(each).startswith(b"-") for each in drawn)


def test_a_number_below_a_bound_reaches_every_value_and_no_other() -> None:
    chance: Chance = SystemChance()
    assert {chance.below(3) for _ in range(200)} == {0, 1, 2}
    assert chance.below(1) == 0
