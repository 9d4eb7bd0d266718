"""Apache Kafka compacts the same log to the same batches and reads our compacted logs."""

import re
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from compat.apache import ApacheKafka, ApacheTools
from pykbroker_protocol.records.batch import DELETE_HORIZON_FLAG, RecordBatch
from pykbroker_protocol.records.compression import Compression
from pykbroker_storage.checkpoint import MetaProperties
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.log import Log
from pykbroker_storage.log_directory import LogDirectory
from tests.storage.batches import batches_from, open_log
from tests.storage.compaction_rounds import (
    COMPACTED,
    append_keyed,
    compact,
    end_transaction,
    keyed_records,
    last_values,
)

TOPIC = "compacted"
BATCHES = 3 * 40
DIRTY_END = 5 * 40


class Kept(NamedTuple):
    """A batch after compaction, without the delete horizon, which depends on the clock."""

    base_offset: int
    last_offset: int
    flags: int
    producer: tuple[int, int, int]
    max_timestamp: int
    records: tuple[tuple[int, int, bytes | None, bytes | None], ...]


def kept(batch: RecordBatch) -> Kept:
    return Kept(
        batch.base_offset,
        batch.last_offset,
        batch.attributes,
        (batch.producer_id, batch.producer_epoch, batch.base_sequence),
        batch.max_timestamp,
        tuple((it.offset, it.timestamp, it.key, it.value) for it in batch.records()),
    )


def write_everything(log: Log, now_ms: int) -> None:
    """Values, tombstones, codecs, idempotent batches, committed and aborted transactions."""
    for number in range(40):
        key, producer_id = b"key-%d" % (number % 7), number % 3
        append_keyed(
            log,
            [
                (key, b"%d" % number),
                (b"other", None if number % 3 else b"1"),
                (b"gone", None if number > 20 else b"1"),
            ],
            compression=Compression(number % 5),
            timestamp=now_ms,
        )
        append_keyed(
            log,
            [(key, b"t%d" % number)],
            producer_id=producer_id,
            base_sequence=number // 3,
            is_transactional=True,
            timestamp=now_ms,
        )
        end_transaction(log, producer_id, is_commit=number % 4 != 1, timestamp=now_ms)
    log.roll(now_ms)
    append_keyed(log, [(b"active", b"-")], timestamp=now_ms)


def apache(data: Path) -> ApacheKafka:
    return ApacheKafka(data, heap="256m", settings={"log.cleaner.backoff.ms": "200"})


def directory_at(path: Path) -> LogDirectory:
    found = MetaProperties.decode((path / "meta.properties").read_bytes())
    return LogDirectory.open(
        str(path),
        cluster_id=found.cluster_id,
        node_id=found.node_id,
        new_directory_id=bytes(16),
        configuration=LogConfiguration(),
    )


def wait_until_apache_has_compacted(path: Path) -> None:
    checkpoint = path / "cleaner-offset-checkpoint"
    ends_at = time.monotonic() + 120
    while f"{TOPIC} 0 {DIRTY_END}\n" not in (checkpoint.read_text() if checkpoint.exists() else ""):
        assert time.monotonic() < ends_at, "Apache's cleaner has not come to the end"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("apache_tools")
def test_apache_compacts_the_same_log_to_the_same_batches(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    with apache(theirs) as node:
        created = node.tool(
            "topics", "--create", "--topic", TOPIC, "--config", "cleanup.policy=compact"
        )
        assert created.returncode == 0, created.stderr
    now_ms = time.time_ns() // 1_000_000
    directory = directory_at(theirs)
    log = directory.log((TOPIC, 0), now_ms=now_ms, configuration=COMPACTED)
    write_everything(log, now_ms)
    directory.abandon()
    ours = tmp_path / "ours"
    shutil.copytree(theirs, ours)
    shutil.copytree(f"{theirs}.node", f"{ours}.node")
    with apache(theirs) as node:
        wait_until_apache_has_compacted(theirs)

    directory = directory_at(theirs)
    expected = directory.log((TOPIC, 0), now_ms=now_ms, configuration=COMPACTED)
    expected_batches = [kept(batch) for batch in batches_from(expected, 0)]
    directory.abandon()
    assert len(expected_batches) < BATCHES / 2
    assert any(it.flags & DELETE_HORIZON_FLAG for it in expected_batches)
    assert any(not it.records for it in expected_batches)

    directory = directory_at(ours)
    log = directory.log((TOPIC, 0), now_ms=now_ms, configuration=COMPACTED)
    assert compact(log, now_ms=now_ms).end_offset == DIRTY_END
    assert [kept(batch) for batch in batches_from(log, 0)] == expected_batches
    records = keyed_records(log)
    table = last_values(records)
    directory.set_first_dirty_offset((TOPIC, 0), DIRTY_END)
    directory.close(
        {(TOPIC, 0): log.log_end_offset},
        now_ms=now_ms,
        broker_epoch=directory.previous_broker_epoch,
    )
    with apache(ours) as node:
        read = node.tool(
            "console-consumer",
            *("--topic", TOPIC, "--from-beginning", "--timeout-ms", 30_000),
            *("--max-messages", len(records)),
            *("--command-property", "isolation.level=read_committed"),
            *("--formatter-property", "print.key=true"),
        )
        assert "ERROR" not in node.log_file.read_text()
    lines = [line.split("\t") for line in read.stdout.splitlines()]
    consumed = {key: value for key, value in lines if value != "null"}
    assert consumed == {key.decode(): value.decode() for key, value in table.items()}


def test_the_dump_tool_accepts_our_compacted_segments(
    tmp_path: Path, apache_tools: ApacheTools
) -> None:
    now_ms = time.time_ns() // 1_000_000
    log = open_log(tmp_path / "log", COMPACTED)
    write_everything(log, now_ms)
    compact(log, now_ms=now_ms)
    offsets = [it[0] for it in keyed_records(log)]
    log.close()
    logs = sorted((tmp_path / "log").glob("*.log"))
    dump = apache_tools.dump_log(*logs, options=["--deep-iteration", "--print-data-log"])
    assert "isvalid: false" not in dump
    found = re.findall(r"^\| offset: (\d+) ", dump, re.MULTILINE)
    assert set(map(int, found)) >= set(offsets)
    indexes = sorted((tmp_path / "log").glob("*index"))
    dump = apache_tools.dump_log(*indexes, options=["--index-sanity-check"])
    assert "fail" not in dump.lower(), dump
