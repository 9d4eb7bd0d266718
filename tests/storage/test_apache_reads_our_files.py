"""Apache Kafka's tools and broker use our directories, and we use theirs."""

import re
from pathlib import Path

import pytest

from compat.apache import ApacheKafka, ApacheTools
from pykbroker_storage.checkpoint import MetaProperties
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.log_directory import LogDirectory
from tests.storage.batches import NOW, append, open_log, records_from
from tests.storage.compaction_rounds import append_keyed, end_transaction

BATCHES = 200


def written_log(directory: Path) -> None:
    log = open_log(directory, LogConfiguration(segment_bytes=20_000, index_interval_bytes=500))
    for number in range(BATCHES):
        append(
            log,
            b"value-%d" % number,
            bytes(300),
            timestamp=NOW + number * 7 % 50,
            leader_epoch=number // 60,
            producer_id=number % 3,
            base_sequence=number // 3 * 2,
        )
    assert log.segment_count > 3
    log.close()


def test_the_dump_tool_finds_every_record(tmp_path: Path, apache_tools: ApacheTools) -> None:
    written_log(tmp_path / "log")
    logs = sorted((tmp_path / "log").glob("*.log"))
    dump = apache_tools.dump_log(*logs, options=["--deep-iteration", "--print-data-log"])
    assert dump.count("isvalid: true") == BATCHES
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", dump, re.MULTILINE)]
    assert offsets == list(range(2 * BATCHES))
    assert "payload: value-199" in dump


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_the_dump_tool_accepts_our_indexes(
    tmp_path: Path, apache_tools: ApacheTools, option: str
) -> None:
    written_log(tmp_path / "log")
    indexes = sorted((tmp_path / "log").glob("*index"))
    dump = apache_tools.dump_log(*indexes, options=[option])
    for fault in ("mismatch", "Mismatch", "out of order", "not found", "corrupt"):
        assert fault not in dump, dump
    if option == "--index-sanity-check":
        assert dump.count("passed sanity check") == len(indexes)


def test_the_dump_tool_reads_a_producer_snapshot(tmp_path: Path, apache_tools: ApacheTools) -> None:
    written_log(tmp_path / "log")
    dump = apache_tools.dump_log(tmp_path / "log" / f"{2 * BATCHES:020d}.snapshot")
    assert [int(found) for found in re.findall(r"producerId: (\d+)", dump)] == [0, 1, 2]


def test_the_dump_tool_reads_an_index_of_aborted_transactions(
    tmp_path: Path, apache_tools: ApacheTools
) -> None:
    log = open_log(tmp_path / "log")
    for producer_id in (5, 6):
        append_keyed(
            log, [(b"k", b"v")] * 3, producer_id=producer_id, base_sequence=0, is_transactional=True
        )
    for producer_id in (6, 5):
        end_transaction(log, producer_id, is_commit=False)
    dump = apache_tools.dump_log(tmp_path / "log" / f"{0:020d}.txnindex")
    assert dump.splitlines()[1:] == [
        "version: 0 producerId: 6 firstOffset: 3 lastOffset: 6 lastStableOffset: 0",
        "version: 0 producerId: 5 firstOffset: 0 lastOffset: 7 lastStableOffset: 8",
    ]


def consume(apache: ApacheKafka, topic: str, count: int) -> list[str]:
    arguments = ("--topic", topic, "--from-beginning", "--max-messages", count)
    consumed = apache.tool("console-consumer", *arguments, "--timeout-ms", 20_000)
    return consumed.stdout.split()


def produce(apache: ApacheKafka, topic: str, *values: str) -> None:
    produced = apache.tool("console-producer", "--topic", topic, input="\n".join(values) + "\n")
    assert produced.returncode == 0, produced.stderr


def open_apaches_directory(path: Path) -> LogDirectory:
    found = MetaProperties.decode((path / "meta.properties").read_bytes())
    return LogDirectory.open(
        str(path),
        cluster_id=found.cluster_id,
        node_id=found.node_id,
        new_directory_id=bytes(16),
        configuration=LogConfiguration(),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("apache_tools")
@pytest.mark.parametrize("is_clean", [True, False])
def test_apache_kafka_and_pykbroker_continue_each_others_logs(
    tmp_path: Path,
    is_clean: bool,  # noqa: FBT001 - by name
) -> None:
    apache = ApacheKafka(tmp_path / "data", heap="256m")
    with apache:
        apache.tool("topics", "--create", "--topic", "shared", "--partitions", 1)
        produce(apache, "shared", "theirs-0", "theirs-1")
    directory = open_apaches_directory(apache.data_dir)
    assert directory.was_clean
    log = directory.log(("shared", 0), now_ms=NOW)
    assert [value for _, value in records_from(log, 0)] == [b"theirs-0", b"theirs-1"]
    append(log, b"ours-2", b"ours-3", leader_epoch=log.leader_epochs.latest_epoch)
    if is_clean:
        directory.close(
            {("shared", 0): 4}, now_ms=NOW, broker_epoch=directory.previous_broker_epoch
        )
    else:
        directory.abandon()
    with apache:
        produce(apache, "shared", "theirs-4")
        expected = ["theirs-0", "theirs-1", "ours-2", "ours-3", "theirs-4"]
        assert consume(apache, "shared", 5) == expected
        assert "ERROR" not in apache.log_file.read_text()
    directory = open_apaches_directory(apache.data_dir)
    log = directory.log(("shared", 0), now_ms=NOW)
    assert [value for _, value in records_from(log, 0)] == [text.encode() for text in expected]
    directory.close({}, now_ms=NOW)
