"""Apache Kafka and PyKBroker read each other's partition files with transactions."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from compat.apache import ApacheKafka
from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess
from tests.apis.transactions.transcript import TransactionTranscript
from tests.end_to_end.transactions.read_committed import aged_partition, reads_at_every_offset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.transactions.read_committed import Reads

    AnyBroker = ApacheKafka | BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apache_tools")]

TOPIC = "aged-topic"
SETTINGS = {"log.roll.ms": 10, "log.index.interval.bytes": 200} | SINGLE_NODE


def apache(folder: Path) -> AnyBroker:
    return ApacheKafka(folder / "apache", heap="256m", settings=SETTINGS)


def pykbroker(folder: Path) -> AnyBroker:
    return BrokerProcess(folder / "pykbroker", settings=SETTINGS)


def written_by(broker: AnyBroker) -> Reads:
    """A compacted partition in the directory of a broker that was stopped cleanly."""
    with broker:
        asking = TransactionTranscript(broker.port, "aged", time.time_ns() // 1_000_000)
        aged_partition(asking, asking.topic())
        asking.close()
        return reads_at_every_offset(broker.port, TOPIC)


def hand_over(giver: AnyBroker, taker: AnyBroker, *, is_clean: bool) -> dict[str, bytes]:
    """Replaces a partition by the other broker's; returns the aborted transactions by file."""
    with taker:
        asking = TransactionTranscript(taker.port, "aged", time.time_ns() // 1_000_000)
        asking.topic()
        asking.close()
    given, taken = giver.data_dir / f"{TOPIC}-0", taker.data_dir / f"{TOPIC}-0"
    for path in taken.iterdir():
        if path.name != "partition.metadata":  # the topic id differs
            path.unlink()
    for path in given.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, taken)
    if not is_clean:
        (taker.data_dir / ".kafka_cleanshutdown").unlink()
        for path in [*taken.glob("*.txnindex"), *taken.glob("*.snapshot")]:
            path.unlink()
    take_over_checkpoints(giver, taker)
    return aborted_files(given)


def take_over_checkpoints(giver: AnyBroker, taker: AnyBroker) -> None:
    """Returns the high watermark and the recovery point."""
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        lines = (giver.data_dir / name).read_text().splitlines()
        known = [it for it in lines[2:] if it.startswith(f"{TOPIC} ")]
        if name.startswith("recovery"):
            known = [f"{TOPIC} 0 0"]
        (taker.data_dir / name).write_text("\n".join(["0", str(len(known)), *known, ""]))


def aborted_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.txnindex")}


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize(
    ("give", "take"), [(apache, pykbroker), (pykbroker, apache)], ids=["from-apache", "to-apache"]
)
def test_the_other_broker_returns_the_same_committed_records(
    tmp_path: Path,
    give: Callable[[Path], AnyBroker],
    take: Callable[[Path], AnyBroker],
    *,
    is_clean: bool,
) -> None:
    giver, taker = give(tmp_path), take(tmp_path)
    before = written_by(giver)
    assert sum(map(len, before["aborted"])) > 50
    given = hand_over(giver, taker, is_clean=is_clean)
    with taker:
        assert reads_at_every_offset(taker.port, TOPIC) == before
        assert aborted_files(taker.data_dir / f"{TOPIC}-0") == given
