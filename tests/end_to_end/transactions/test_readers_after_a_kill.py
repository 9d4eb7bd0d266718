"""After a kill the last stable offset and aborted transactions are restored from the log."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from compat.apache.apache_kafka import SINGLE_NODE
from tests.apis.transactions.transcript import TransactionTranscript
from tests.apis.wire import Wire
from tests.end_to_end.transactions.read_committed import (
    aged_partition,
    offsets_of,
    read,
    reads_at_every_offset,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

SMALL_SEGMENTS = {"log.roll.ms": 10, "log.index.interval.bytes": 200} | SINGLE_NODE


def killed(broker: BrokerProcess, _: Path) -> None:
    broker.kill()


def killed_and_robbed(broker: BrokerProcess, folder: Path) -> None:
    broker.kill()
    for path in [*folder.glob("*.txnindex"), *folder.glob("*.snapshot")]:
        path.unlink()


def stopped(broker: BrokerProcess, _: Path) -> None:
    assert broker.stop() == 0


@pytest.mark.parametrize("ends", [killed, killed_and_robbed, stopped], ids=lambda it: it.__name__)
def test_read_committed_consumers_get_the_same_records_after_a_kill(
    start_broker: StartBroker, ends: Callable[[BrokerProcess, Path], None]
) -> None:
    broker = start_broker(settings=SMALL_SEGMENTS)
    asking = TransactionTranscript(broker.port, "aged", time.time_ns() // 1_000_000)
    topic = asking.topic()
    still_open = aged_partition(asking, topic)
    before = reads_at_every_offset(broker.port, topic.name)
    assert sum(map(len, before["aborted"])) > 50
    folder = broker.data_dir / f"{topic.name}-0"
    assert len([*folder.glob("*.log")]) > 5
    ends(broker, folder)
    broker.start()
    assert reads_at_every_offset(broker.port, topic.name) == before
    asking.reconnect()
    still_open.broker.until(still_open.ending(committed=False), 4, lambda it: not it.error_code)
    still_open.until_complete()
    after = reads_at_every_offset(broker.port, topic.name)
    assert after["latest"] > before["latest"]
    assert (still_open.id, before["latest"]) in after["aborted"][before["latest"]]
    asking.close()


def test_a_waiting_consumer_gets_a_transaction_when_it_ends(broker: BrokerProcess) -> None:
    asking = TransactionTranscript(broker.port, "waiting", time.time_ns() // 1_000_000)
    topic = asking.topic()
    producer = asking.producer()
    producer.add(topic)
    producer.send(topic)
    found = []

    def wait() -> None:
        with Wire(broker.port) as wire:
            found.append(read(wire, topic.name, 0, max_wait_ms=20_000))

    reader = threading.Thread(target=wait)
    reader.start()
    producer.send(topic)
    reader.join(0.2)
    assert reader.is_alive()
    producer.end()
    reader.join(5)
    assert not reader.is_alive()
    assert offsets_of(found[0]) == [0, 1, 2]
    asking.close()
