"""Killed publishers write each record once for consumers with read_committed."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from pykbroker import Broker
from tests.pipeline.engine_process import WAS_KILLED, run, start

ENGINE = Path(__file__).with_name("publishing_engine.py")
BATCH_RECORDS = 200

CRASH_POINTS = ("PRODUCING:137", "PRODUCED:2", "MARKED:3", "PUBLISHED:2")


def numbers(kafka: Broker) -> list[int]:
    return sorted(int(it.text or "") for it in kafka.records("out"))


@pytest.fixture
def broker(kafka: Broker) -> Broker:
    kafka.create_topics({"out": 3})
    return kafka


def test_publisher_killed_at_each_crash_point_publishes_once(
    broker: Broker, tmp_path: Path
) -> None:
    for point in CRASH_POINTS:
        killed = run(ENGINE, broker.bootstrap, tmp_path, 3, 3, environment={"KILL_AT": point})
        assert killed == WAS_KILLED, point
    assert run(ENGINE, broker.bootstrap, tmp_path, 3, 3) == 0
    assert numbers(broker) == list(range(3 * BATCH_RECORDS))


def test_publisher_restarted_with_another_number_of_slots_publishes_once(
    broker: Broker, tmp_path: Path
) -> None:
    crashes = ((3, "CHANGING_SLOTS:1"), (3, "PUBLISHED:2"), (2, "MARKED:1"), (1, "PRODUCED:2"))
    for slots, point in crashes:
        killed = run(ENGINE, broker.bootstrap, tmp_path, 3, slots, environment={"KILL_AT": point})
        assert killed == WAS_KILLED, point
    assert run(ENGINE, broker.bootstrap, tmp_path, 3, 3) == 0
    assert numbers(broker) == list(range(3 * BATCH_RECORDS))


@pytest.mark.parametrize(
    ("slots", "more_slots", "point"),
    [
        (3, 3, "PRODUCED:2"),
        (3, 2, "PRODUCED:2"),
        (3, 1, "CHANGING_SLOTS:1"),
        (1, 3, "CHANGING_SLOTS:1"),
    ],
)
def test_suspended_publisher_adds_nothing_after_another_has_finished(
    broker: Broker, tmp_path: Path, slots: int, more_slots: int, point: str
) -> None:
    stopped = tmp_path / "stopped"
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    environment = {"STOP_AT": point, "STOPPED": str(stopped)}
    with start(
        ENGINE, broker.bootstrap, checkpoint, 3, slots, environment=environment
    ) as suspended:
        deadline = time.monotonic() + 60
        while not stopped.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert run(ENGINE, broker.bootstrap, checkpoint, 3, more_slots) == 0
        suspended.send_signal(signal.SIGCONT)
        output, _ = suspended.communicate(timeout=120)
    assert suspended.returncode == 0 or "CannotPublish" in output
    assert numbers(broker) == list(range(3 * BATCH_RECORDS))


@pytest.mark.slow
def test_publisher_killed_at_random_publishes_once(broker: Broker, tmp_path: Path) -> None:
    """Kills at random crash points and at random times, with changing numbers of slots."""
    chance = random.Random(7)
    kills = 0
    batches = 0
    kills_min = int(os.environ.get("PYKBROKER_KILLS", "2"))
    while kills < kills_min:
        batches += 2
        environment = {"KILL_PROBABILITY": str(chance.choice([0.0005, 0.002, 0.01]))}
        while True:
            slots = chance.choice([1, 2, 3, 3])
            with start(
                ENGINE, broker.bootstrap, tmp_path, batches, slots, environment=environment
            ) as child:
                if chance.random() < 0.5:
                    time.sleep(chance.uniform(0.3, 1.5))
                    child.kill()
                output, _ = child.communicate(timeout=240)
            if child.returncode == 0:
                break
            assert child.returncode == WAS_KILLED, output
            kills += 1
    print(f"{kills} kills, {batches * BATCH_RECORDS} records", flush=True)
    assert numbers(broker) == list(range(batches * BATCH_RECORDS))
