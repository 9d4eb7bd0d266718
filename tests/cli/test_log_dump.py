"""`log dump` prints files of a data directory and finds corruption."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykbroker.cli.main import main
from pykbroker.coordination.outcome import Write
from pykbroker.coordinators.records import encode_write
from pykbroker_protocol.consumer_protocol import encode_assignment, encode_topics
from pykbroker_protocol.internal_topics.classic_groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from pykbroker_protocol.internal_topics.offsets import OffsetCommitKey, OffsetCommitValue
from pykbroker_protocol.internal_topics.transactions import TransactionLogKey, TransactionLogValue
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_storage.checkpoint import MetaProperties, PartitionMetadata, encode_offsets
from pykbroker_storage.formats import (
    OFFSET_INDEX_ENTRY,
    PRODUCER_ENTRY,
    TIME_INDEX_ENTRY,
    TRANSACTION_INDEX_ENTRY,
)

SEGMENT = "00000000000000000010"
FIRST_SEGMENT = "00000000000000000000"
Dump = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Dump:
    """Writes a file and dumps it; returns the exit code and the findings."""

    def dump_file(name: str, data: bytes, *options: str) -> tuple[int, list[dict[str, Any]]]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        exit_code = main(["log", "dump", "--json", *options, str(path)])
        return exit_code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return dump_file


def batch(base_offset: int, *values: bytes) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, compression=Compression.GZIP, producer_id=7)
    for value in values:
        builder.append(1000, b"k", value, [("h", b"1")])
    return builder.build()


def test_batches_and_records_of_a_segment_are_printed(dump: Dump) -> None:
    exit_code, found = dump(f"{SEGMENT}.log", batch(10, b"a", b"b") + batch(12, b"c"), "--records")
    assert exit_code == 0
    assert [it["kind"] for it in found] == [
        *("batch", "record", "record"),
        *("batch", "record"),
        "summary",
    ]
    assert found[0]["compression"] == "gzip"
    assert found[0]["crc_valid"] is True
    assert found[3]["position"] == found[0]["size_bytes"]
    assert found[2]["value"] == "b"
    assert found[2]["headers"] == [{"name": "h", "value": "1"}]
    summary = {name: found[-1][name] for name in ("batches", "records", "next_offset")}
    assert summary == {"batches": 2, "records": 3, "next_offset": 13}


def test_a_crc_mismatch_is_reported_and_later_batches_are_printed(dump: Dump) -> None:
    corrupt = bytearray(batch(10, b"a") + batch(11, b"b"))
    corrupt[70] ^= 1
    exit_code, found = dump(f"{SEGMENT}.log", bytes(corrupt))
    assert exit_code == 1
    assert [it["kind"] for it in found] == ["batch", "damage", "batch", "summary"]
    assert found[0]["crc_valid"] is False


@pytest.mark.parametrize("missing", [1, 40, 70])
def test_a_truncated_last_batch_is_reported(dump: Dump, missing: int) -> None:
    exit_code, found = dump(f"{SEGMENT}.log", batch(10, b"a") + batch(11, b"b" * 50)[:-missing])
    assert exit_code == 1
    assert [it["kind"] for it in found] == ["batch", "damage", "summary"]


def test_offsets_that_do_not_ascend_are_reported(dump: Dump) -> None:
    exit_code, found = dump(f"{SEGMENT}.log", batch(10, b"a") + batch(10, b"b"))
    assert exit_code == 1
    assert found[2]["message"] == "base offset 10 after last offset 10"


def test_transaction_markers_are_printed(dump: Dump) -> None:
    marker = EndTransactionMarker(is_commit=False, coordinator_epoch=4)
    data = marker_batch(marker, producer_id=9, producer_epoch=1, timestamp_ms=5)
    _, found = dump(f"{SEGMENT}.log", data)
    assert found[1]["type"] == "ABORT"
    assert found[1]["fields"] == {"coordinator_epoch": 4}


def test_metadata_records_are_decoded(dump: Dump) -> None:
    builder = BatchBuilder()
    builder.append(0, None, bytes.fromhex("010200") + b"\x07trucks" + bytes(15) + b"\x05" + b"\0")
    builder.append(0, None, bytes.fromhex("016300ff"))
    exit_code, found = dump("__cluster_metadata-0/00000000000000000000.log", builder.build())
    assert exit_code == 0
    assert found[1]["type"] == "TopicRecord"
    assert found[1]["fields"] == {"name": "trucks", "topic_id": "AAAAAAAAAAAAAAAAAAAABQ"}
    assert (found[2]["type"], found[2]["hex"]) == ("record 99", "ff")


OFFSET_KEY = OffsetCommitKey(group="depot", topic="trucks", partition=2)
GROUP_KEY = GroupMetadataKey(group="depot")
TRANSACTION_KEY = TransactionLogKey(transactional_id="pay")
MEMBER = MemberMetadata(
    member_id="m",
    client_id="c",
    client_host="/h",
    session_timeout=10,
    subscription=encode_topics(["trucks"], 0),
    assignment=encode_assignment({"trucks": [2]}, 0),
)


@pytest.mark.parametrize(
    ("directory", "write", "key", "value"),
    [
        (
            "__consumer_offsets-7",
            Write(OFFSET_KEY, OffsetCommitValue(offset=5, metadata="", commit_timestamp=9), 3),
            {"group": "depot", "topic": "trucks", "partition": 2},
            {"offset": 5, "leader_epoch": -1, "metadata": "", "commit_timestamp": 9},
        ),
        (
            "__consumer_offsets-7",
            Write(OFFSET_KEY, None),
            {"group": "depot", "topic": "trucks", "partition": 2},
            None,
        ),
        (
            "__consumer_offsets-7",
            Write(
                GROUP_KEY,
                GroupMetadataValue(
                    protocol_type="consumer",
                    generation=1,
                    protocol="range",
                    leader="m",
                    members=[MEMBER],
                ),
                0,
            ),
            {"group": "depot"},
            {
                "protocol_type": "consumer",
                "generation": 1,
                "protocol": "range",
                "leader": "m",
                "members": [
                    {
                        "member_id": "m",
                        "client_id": "c",
                        "client_host": "/h",
                        "session_timeout": 10,
                        "subscription": ["trucks"],
                        "assignment": {"trucks": [2]},
                    }
                ],
            },
        ),
        (
            "__transaction_state-0",
            Write(
                TRANSACTION_KEY,
                TransactionLogValue(
                    producer_id=8,
                    producer_epoch=1,
                    transaction_timeout_ms=60,
                    transaction_status=0,
                    transaction_partitions=None,
                    transaction_last_update_timestamp_ms=5,
                    transaction_start_timestamp_ms=4,
                ),
                0,
            ),
            {"transactional_id": "pay"},
            {
                "producer_id": 8,
                "producer_epoch": 1,
                "transaction_timeout_ms": 60,
                "transaction_status": 0,
                "transaction_partitions": None,
                "transaction_last_update_timestamp_ms": 5,
                "transaction_start_timestamp_ms": 4,
            },
        ),
    ],
)
def test_coordinator_records_are_decoded(
    dump: Dump,
    directory: str,
    write: Write,
    key: dict[str, Any],
    value: dict[str, Any] | None,
) -> None:
    builder = BatchBuilder()
    builder.append(0, *encode_write(write))
    exit_code, found = dump(f"{directory}/{FIRST_SEGMENT}.log", builder.build(), "--records")
    assert exit_code == 0
    assert found[1]["kind"] == "coordination"
    assert found[1]["type"] == type(write.key).__name__.removesuffix("Key")
    assert (found[1]["key"], found[1]["value"]) == (key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"\0\x63", None), (b"", b""), (b"\0\2\0\1g", b"\0\x63"), (None, b"v")],
)
def test_unknown_coordinator_records_are_printed_undecoded(
    dump: Dump, key: bytes | None, value: bytes | None
) -> None:
    builder = BatchBuilder()
    builder.append(0, key, value)
    exit_code, found = dump(
        f"__consumer_offsets-0/{FIRST_SEGMENT}.log", builder.build(), "--records"
    )
    assert exit_code == 0
    assert found[1]["type"] == "unknown"
    assert found[1]["key"] == (None if key is None else key.decode())


def test_a_committed_offset_is_one_line_of_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = BatchBuilder()
    builder.append(1000, *encode_write(Write(OFFSET_KEY, None)))
    path = tmp_path / "__consumer_offsets-7" / f"{FIRST_SEGMENT}.log"
    path.parent.mkdir()
    path.write_bytes(builder.build())
    assert main(["log", "dump", "--records", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[2] == (
        "    0  1970-01-01T00:00:01.000Z  "
        "OffsetCommit group=depot topic=trucks partition=2: tombstone"
    )


def test_an_offset_index_is_compared_with_its_log(dump: Dump, tmp_path: Path) -> None:
    first, second = batch(10, b"a", b"b"), batch(12, b"c")
    (tmp_path / f"{SEGMENT}.log").write_bytes(first + second)
    right = OFFSET_INDEX_ENTRY.build({"relative_offset": 2, "position": len(first)})
    wrong = OFFSET_INDEX_ENTRY.build({"relative_offset": 3, "position": len(first) + 1})
    assert dump(f"{SEGMENT}.index", right + bytes(8)) == (
        0,
        [
            entry(tmp_path, "index", kind="entry", offset=12, position=len(first)),
            entry(tmp_path, "index", kind="unused", entries=1),
        ],
    )
    exit_code, found = dump(f"{SEGMENT}.index", right + wrong)
    assert exit_code == 1
    assert "no batch with offset 13" in found[-1]["message"]


def entry(directory: Path, suffix: str, **fields: Any) -> dict[str, Any]:
    return {"file": str(directory / f"{SEGMENT}.{suffix}"), **fields}


def test_a_time_index_must_ascend(dump: Dump) -> None:
    entries = [
        TIME_INDEX_ENTRY.build({"timestamp": timestamp, "relative_offset": 1 + i})
        for i, timestamp in enumerate((1000, 999))
    ]
    exit_code, found = dump(f"{SEGMENT}.timeindex", b"".join(entries))
    assert exit_code == 1
    assert [it["kind"] for it in found] == ["entry", "entry", "damage"]
    assert found[0]["offset"] == 11


def test_aborted_transactions_are_printed(dump: Dump) -> None:
    fields = {"producer_id": 1, "first_offset": 2, "last_offset": 3, "last_stable_offset": 4}
    data = TRANSACTION_INDEX_ENTRY.build({"version": 0, **fields})
    exit_code, found = dump(f"{SEGMENT}.txnindex", data)
    assert exit_code == 0
    assert {name: found[0][name] for name in fields} == fields
    assert dump(f"{SEGMENT}.txnindex", data + b"\0")[0] == 1


def test_producer_snapshots_are_printed_and_their_crc_is_verified(dump: Dump) -> None:
    fields = {
        "producer_id": 1,
        "producer_epoch": 0,
        "last_sequence": 5,
        "last_offset": 15,
        "offset_delta": 0,
        "timestamp": 1000,
        "coordinator_epoch": -1,
        "transaction_first_offset": -1,
    }
    body = (1).to_bytes(4, "big") + PRODUCER_ENTRY.build(fields)
    data = (1).to_bytes(2, "big") + checksum(body).to_bytes(4, "big") + body
    exit_code, found = dump(f"{SEGMENT}.snapshot", data)
    assert exit_code == 0
    assert {name: found[0][name] for name in fields} == fields
    assert dump(f"{SEGMENT}.snapshot", data[:-1] + b"\0")[0] == 1
    assert dump(f"{SEGMENT}.snapshot", data[:-1])[0] == 1


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        (
            "replication-offset-checkpoint",
            encode_offsets({("a", 1): 5}),
            {"topic": "a", "partition": 1, "offset": 5},
        ),
        ("leader-epoch-checkpoint", b"0\n1\n3 70\n", {"leader_epoch": 3, "start_offset": 70}),
        (
            "meta.properties",
            MetaProperties(cluster_id="c", node_id=2, directory_id=bytes(16)).encode(),
            {"cluster_id": "c", "node_id": 2, "directory_id": "AAAAAAAAAAAAAAAAAAAAAA"},
        ),
        (
            "partition.metadata",
            PartitionMetadata(topic_id=bytes(16)).encode(),
            {"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"},
        ),
        ("quorum-state", b'{"leaderId":1}', {"name": "leaderId", "value": 1}),
    ],
)
def test_text_files_are_printed(dump: Dump, name: str, data: bytes, found: dict[str, Any]) -> None:
    exit_code, findings = dump(name, data)
    assert exit_code == 0
    assert {name: findings[0][name] for name in found} == found


@pytest.mark.parametrize(
    "name",
    ["replication-offset-checkpoint", "leader-epoch-checkpoint", "meta.properties", "quorum-state"],
)
def test_a_malformed_text_file_is_corrupt(dump: Dump, name: str) -> None:
    exit_code, found = dump(name, b"\xff nonsense")
    assert exit_code == 1
    assert found[0]["kind"] == "damage"


def test_each_batch_is_one_line_of_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"{SEGMENT}.log"
    path.write_bytes(batch(10, b"a"))
    assert main(["log", "dump", str(path)]) == 0
    head, line, summary = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{path}: log segment, ")
    assert line.startswith("  batch 10..10 at byte 0, ")
    assert "1 record, leader epoch -1, gzip, latest create time 1970-01-01T00:00:01.000Z" in line
    assert summary == "  1 batch, 1 record, offsets 10..10"


def test_a_missing_file_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", "nowhere"]) == 2
    assert capsys.readouterr().err == "log dump: nowhere: No such file or directory\n"


def test_a_file_of_unknown_type_is_not_corrupt(dump: Dump) -> None:
    exit_code, found = dump("server.log", b"started")
    assert exit_code == 0
    assert [it["kind"] for it in found] == ["unknown"]


def test_the_error_counts_corrupt_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("meta.properties", "quorum-state", "partition.metadata"):
        (tmp_path / name).write_bytes(b"nonsense")
    (tmp_path / "server.log").write_bytes(b"started")
    assert main(["log", "dump", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "log dump: 3 of 4 files are corrupt\n"
