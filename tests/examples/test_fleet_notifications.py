"""Each notification is written once, also when services or the broker crash."""

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
TIMEOUT_SECONDS = 60
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
    found = kafka.wait_for(NOTIFICATIONS, count=count, timeout_seconds=TIMEOUT_SECONDS)
    return sorted(str(it.json()["text"]) for it in found)


def notified(kafka: Broker) -> list[tuple[str, bool]]:
    """Returns truck and `is_over` of all notifications."""
    found = [it.json() for it in kafka.records(NOTIFICATIONS)]
    return sorted((it["truck_id"], it["is_over"]) for it in found)


def wait_until(kafka: Broker, committed: Callable[[], int], expected: int) -> None:
    """Waits until the group has committed the expected offsets."""
    for _ in range(TIMEOUT_SECONDS * 20):
        if committed() == expected:
            return
        Event().wait(0.05)
    raise AssertionError(kafka.story())


def read_by_the_group(kafka: Broker, topic: str) -> int:
    return sum(offset for (name, _), offset in kafka.offsets(GROUP).items() if name == topic)


def report_after_all_alerts(kafka: Broker) -> None:
    """Produces reports after the group has read all alerts; earlier reports end no incident."""
    wait_until(kafka, lambda: read_by_the_group(kafka, ALERTS), len(FLEET))
    kafka.produce(TRUCKS, [report(truck, 12) for truck in FLEET])


def test_silence_and_its_end_are_notified(kafka: Broker) -> None:
    with notifying(kafka):
        kafka.produce(ALERTS, [alert("truck-1", 4)])
        (silent,) = texts(kafka, 1)
        kafka.produce(TRUCKS, [report("truck-1", 12)])
        assert texts(kafka, 2) == [silent, f"truck-1 reports again at {at(12):%H:%M} near Ulm"]
    assert silent.endswith("last seen near Ulm")


def test_restarted_service_writes_only_new_notifications(
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
    assert notified(kafka) == [("truck-1", False), ("truck-1", True), ("truck-2", False)]


def test_broken_records_are_skipped(kafka: Broker) -> None:
    kafka.produce(ALERTS, ["no alert", b"\xff", None, {"truck_id": "truck-1"}])
    kafka.produce(TRUCKS, ["no report", b"", None])
    kafka.produce(ALERTS, [alert("truck-1", 4)])
    with notifying(kafka):
        texts(kafka, 1)
        wait_until(kafka, lambda: read_by_the_group(kafka, ALERTS), 5)
    assert notified(kafka) == [("truck-1", False)]


def test_lost_response_does_not_duplicate_a_notification(kafka: Broker) -> None:
    with kafka.faults.lose_answer("END_TXN", times=1), notifying(kafka):
        kafka.produce(ALERTS, [alert("truck-1", 4)])
        texts(kafka, 1)
        kafka.produce(ALERTS, [alert("truck-2", 4)])
        texts(kafka, 2)
    assert notified(kafka) == [("truck-1", False), ("truck-2", False)]


def test_crashed_broker_neither_loses_nor_duplicates_notifications(kafka: Broker) -> None:
    with notifying(kafka):
        for half in (FLEET[::2], FLEET[1::2]):
            before = len(kafka.records(NOTIFICATIONS))
            kafka.produce(ALERTS, [alert(truck, 4) for truck in half])
            kafka.wait_for(NOTIFICATIONS, count=before + 1, timeout_seconds=TIMEOUT_SECONDS)
            kafka.crash()
        report_after_all_alerts(kafka)
        texts(kafka, 2 * len(FLEET))
    assert notified(kafka) == sorted((truck, over) for truck in FLEET for over in (False, True))


@pytest.mark.slow
def test_killed_service_writes_each_notification_once(kafka: Broker) -> None:
    """Kills the service while it writes notifications for a third of the trucks."""
    for third in range(3):
        kafka.produce(ALERTS, [alert(truck, 4) for truck in FLEET[third::3]])
        with notifying_process(kafka) as process:
            kafka.wait_for(NOTIFICATIONS, count=third * 13 + 1, timeout_seconds=TIMEOUT_SECONDS)
            os.kill(process.pid, signal.SIGKILL)
        kafka.clock.advance(seconds=2 * SESSION_SECONDS)
    with notifying(kafka):
        report_after_all_alerts(kafka)
        texts(kafka, 2 * len(FLEET))
    assert notified(kafka) == sorted((truck, over) for truck in FLEET for over in (False, True))


def test_two_services_share_the_trucks_and_write_each_notification_once(kafka: Broker) -> None:
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
    assert notified(kafka) == sorted(twice)
