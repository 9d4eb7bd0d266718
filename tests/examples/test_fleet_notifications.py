"""Each notification is told once, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from examples.fleet.notifications import GROUP, SESSION_SECONDS, run
from examples.fleet.reports import TRUCKS
from examples.fleet.topics import ALERTS, NOTIFICATIONS
from tests.examples.fleet_rows import TOPICS, alert, at, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykbroker import Broker

pytestmark = pytest.mark.kafka(topics=TOPICS)

ROOT = Path(__file__).parents[2]
LONG_ENOUGH_S = 60
FLEET = [f"truck-{number:03}" for number in range(39)]


@contextmanager
def notifying(kafka: Broker, name: str = "notifier") -> Iterator[None]:
    stopped = Event()
    thread = Thread(target=run, args=(kafka.bootstrap, name, stopped))
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@contextmanager
def notifying_process(kafka: Broker) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "examples.fleet", "notify", "--bootstrap", kafka.bootstrap]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def texts(kafka: Broker, count: int) -> list[str]:
    found = kafka.wait_for(NOTIFICATIONS, count=count, timeout_seconds=LONG_ENOUGH_S)
    return sorted(str(it.json()["text"]) for it in found)


def told(kafka: Broker) -> list[tuple[str, bool]]:
    """Truck and whether it is over."""
    found = [it.json() for it in kafka.records(NOTIFICATIONS)]
    return sorted((it["truck_id"], it["is_over"]) for it in found)


def wait_until(kafka: Broker, committed: Callable[[], int], wanted: int) -> None:
    """The group has read everything."""
    for _ in range(LONG_ENOUGH_S * 20):
        if committed() == wanted:
            return
        Event().wait(0.05)
    raise AssertionError(kafka.story())


def read_by_the_group(kafka: Broker, topic: str) -> int:
    return sum(offset for (name, _), offset in kafka.offsets(GROUP).items() if name == topic)


def report_after_all_alerts(kafka: Broker) -> None:
    """Two topics have no common order: a report that is read before its alert ends nothing."""
    wait_until(kafka, lambda: read_by_the_group(kafka, ALERTS), len(FLEET))
    kafka.produce(TRUCKS, [report(truck, 12) for truck in FLEET])


def test_a_silence_and_its_end_are_told(kafka: Broker) -> None:
    with notifying(kafka):
        kafka.produce(ALERTS, [alert("truck-1", 4)])
        (silent,) = texts(kafka, 1)
        kafka.produce(TRUCKS, [report("truck-1", 12)])
        assert texts(kafka, 2) == [silent, f"truck-1 reports again at {at(12):%H:%M} near Ulm"]
    assert silent.endswith("last seen near Ulm")


def test_what_was_told_before_a_restart_is_not_told_again_and_what_came_meanwhile_is(
    kafka: Broker,
) -> None:
    with notifying(kafka):
        kafka.produce(ALERTS, [alert("truck-1", 4)])
        texts(kafka, 1)
        wait_until(kafka, lambda: read_by_the_group(kafka, ALERTS), 1)
    kafka.produce(ALERTS, [alert("truck-1", 4), alert("truck-2", 5)])
    kafka.produce(TRUCKS, [report("truck-1", 12)])
    with notifying(kafka):
        texts(kafka, 3)
        wait_until(kafka, lambda: read_by_the_group(kafka, ALERTS), 3)
    assert told(kafka) == [("truck-1", False), ("truck-1", True), ("truck-2", False)]


def test_records_that_nobody_can_read_are_passed_over(kafka: Broker) -> None:
    kafka.produce(ALERTS, ["no alert", b"\xff", None, {"truck_id": "truck-1"}])
    kafka.produce(TRUCKS, ["no report", b"", None])
    kafka.produce(ALERTS, [alert("truck-1", 4)])
    with notifying(kafka):
        texts(kafka, 1)
        wait_until(kafka, lambda: read_by_the_group(kafka, ALERTS), 5)
    assert told(kafka) == [("truck-1", False)]


def test_an_answer_that_is_lost_makes_no_second_notification(kafka: Broker) -> None:
    with kafka.faults.lose_answer("END_TXN", times=1), notifying(kafka):
        kafka.produce(ALERTS, [alert("truck-1", 4)])
        texts(kafka, 1)
        kafka.produce(ALERTS, [alert("truck-2", 4)])
        texts(kafka, 2)
    assert told(kafka) == [("truck-1", False), ("truck-2", False)]


def test_a_broker_that_crashes_costs_no_notification_and_doubles_none(kafka: Broker) -> None:
    with notifying(kafka):
        for half in (FLEET[::2], FLEET[1::2]):
            before = len(kafka.records(NOTIFICATIONS))
            kafka.produce(ALERTS, [alert(truck, 4) for truck in half])
            kafka.wait_for(NOTIFICATIONS, count=before + 1, timeout_seconds=LONG_ENOUGH_S)
            kafka.crash()
        report_after_all_alerts(kafka)
        texts(kafka, 2 * len(FLEET))
    assert told(kafka) == sorted((truck, over) for truck in FLEET for over in (False, True))


@pytest.mark.slow
def test_a_service_that_is_killed_again_and_again_tells_everything_once(kafka: Broker) -> None:
    """Each time in the middle of its work: a third of the trucks is just being told."""
    for third in range(3):
        kafka.produce(ALERTS, [alert(truck, 4) for truck in FLEET[third::3]])
        with notifying_process(kafka) as process:
            kafka.wait_for(NOTIFICATIONS, count=third * 13 + 1, timeout_seconds=LONG_ENOUGH_S)
            os.kill(process.pid, signal.SIGKILL)
        kafka.clock.advance(seconds=2 * SESSION_SECONDS)
    with notifying(kafka):
        report_after_all_alerts(kafka)
        texts(kafka, 2 * len(FLEET))
    assert told(kafka) == sorted((truck, over) for truck in FLEET for over in (False, True))


def test_two_services_share_the_trucks_and_tell_each_thing_once(kafka: Broker) -> None:
    with notifying(kafka, "first"):
        kafka.produce(ALERTS, [alert(truck, 4) for truck in FLEET])
        texts(kafka, len(FLEET))
        with notifying(kafka, "second"):
            kafka.produce(TRUCKS, [report(truck, 12) for truck in FLEET])
            texts(kafka, 2 * len(FLEET))
            kafka.produce(ALERTS, [alert(truck, 30) for truck in FLEET])
            texts(kafka, 3 * len(FLEET))
        kafka.produce(TRUCKS, [report(truck, 40) for truck in FLEET])
        texts(kafka, 4 * len(FLEET))
        wait_until(kafka, lambda: read_by_the_group(kafka, TRUCKS), 2 * len(FLEET))
    twice = [(truck, over) for truck in FLEET for over in (False, True)] * 2
    assert told(kafka) == sorted(twice)
