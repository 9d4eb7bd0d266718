"""Whatever kills a publisher, a reader of committed records sees each record once."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from pykbroker import Broker
from tests.pipeline.child import WAS_KILLED, run, start

ENGINE = Path(__file__).with_name("publishing_engine.py")
BATCH_RECORDS = 200

MOMENTS = ("PRODUCING:137", "PRODUCED:2", "MARKED:3", "PUBLISHED:2")


def numbers(kafka: Broker) -> list[int]:
    return sorted(int(it.text or "") for it in kafka.records("out"))


@pytest.fixture
def broker(kafka: Broker) -> Broker:
    kafka.create_topics({"out": 3})
    return kafka


def test_killed_at_each_moment_that_matters(broker: Broker, tmp_path: Path) -> None:
    for moment in MOMENTS:
        killed = run(ENGINE, broker.bootstrap, tmp_path, 3, 3, environment={"KILL_AT": moment})
        assert killed == WAS_KILLED, moment
    assert run(ENGINE, broker.bootstrap, tmp_path, 3, 3) == 0
    assert numbers(broker) == list(range(3 * BATCH_RECORDS))


def test_killed_with_one_number_of_slots_and_started_with_another(
    broker: Broker, tmp_path: Path
) -> None:
    crashes = ((3, "CHANGING_SLOTS:1"), (3, "PUBLISHED:2"), (2, "MARKED:1"), (1, "PRODUCED:2"))
    for slots, moment in crashes:
        killed = run(ENGINE, broker.bootstrap, tmp_path, 3, slots, environment={"KILL_AT": moment})
        assert killed == WAS_KILLED, moment
    assert run(ENGINE, broker.bootstrap, tmp_path, 3, 3) == 0
    assert numbers(broker) == list(range(3 * BATCH_RECORDS))


@pytest.mark.parametrize(
    ("slots", "more_slots", "moment"),
    [
        (3, 3, "PRODUCED:2"),
        (3, 2, "PRODUCED:2"),
        (3, 1, "CHANGING_SLOTS:1"),
        (1, 3, "CHANGING_SLOTS:1"),
    ],
)
def test_one_that_sleeps_while_another_does_its_work_adds_nothing_when_it_wakes(
    broker: Broker, tmp_path: Path, slots: int, more_slots: int, moment: str
) -> None:
    stopped = tmp_path / "stopped"
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    environment = {"STOP_AT": moment, "STOPPED": str(stopped)}
    with start(ENGINE, broker.bootstrap, checkpoint, 3, slots, environment=environment) as sleeper:
        deadline = time.monotonic() + 60
        while not stopped.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert run(ENGINE, broker.bootstrap, checkpoint, 3, more_slots) == 0
        sleeper.send_signal(signal.SIGCONT)
        words, _ = sleeper.communicate(timeout=120)
    assert sleeper.returncode == 0 or "CannotPublish" in words
    assert numbers(broker) == list(range(3 * BATCH_RECORDS))


@pytest.mark.slow
def test_killed_again_and_again(broker: Broker, tmp_path: Path) -> None:
    """By its own hand at any moment, and by ours at any time; with changing numbers of slots."""
    chance = random.Random(7)
    kills = 0
    batches = 0
    wanted = int(os.environ.get("PYKBROKER_KILLS", "2"))
    while kills < wanted:
        batches += 2
        environment = {"KILL_NOW_AND_THEN": str(chance.choice([0.0005, 0.002, 0.01]))}
        while True:
            slots = chance.choice([1, 2, 3, 3])
            with start(
                ENGINE, broker.bootstrap, tmp_path, batches, slots, environment=environment
            ) as child:
                if chance.random() < 0.5:
                    time.sleep(chance.uniform(0.3, 1.5))
                    child.kill()
                words, _ = child.communicate(timeout=240)
            if child.returncode == 0:
                break
            assert child.returncode == WAS_KILLED, words
            kills += 1
    print(f"{kills} kills, {batches * BATCH_RECORDS} records", flush=True)
    assert numbers(broker) == list(range(batches * BATCH_RECORDS))
