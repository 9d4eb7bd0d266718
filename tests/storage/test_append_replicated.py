"""A follower validates batches from its leader before it changes its log."""

from collections.abc import Callable
from pathlib import Path
from struct import pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker_protocol.records.batch import (
    CHECKED_FROM,
    CONTROL_FLAG,
    HEADER_BYTES,
    TRANSACTIONAL_FLAG,
    encode_batch,
    iterate_batches,
    write_crc,
)
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch
from pykbroker_storage.batch_preparation import InvalidReplicatedBatch, parse_replicated
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.log import Log
from tests.storage.batches import NOW, SMALL, append, batch_bytes, open_log, records_from

END = 3
"""Log end offset of the follower, whose records have leader epoch 4."""
LEADER_EPOCH = 6


def from_leader(
    *values: bytes, base_offset: int = END, leader_epoch: int = 5, producer_id: int = -1
) -> bytearray:
    return batch_bytes(
        values or (b"x", b"y"),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        base_sequence=0 if producer_id >= 0 else -1,
    )


def with_field(batch: bytearray, layout: str, position: int, value: int) -> bytearray:
    """Overwrites a header field and writes a valid checksum."""
    pack_into(layout, batch, position, value)
    write_crc(batch)
    return batch


def control_batch(payload: bytes, *, record_count: int = 1, compression: int = 0) -> bytes:
    return encode_batch(
        payload,
        attributes=CONTROL_FLAG | TRANSACTIONAL_FLAG | compression,
        base_offset=END,
        partition_leader_epoch=5,
        last_offset_delta=0,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=7,
        producer_epoch=0,
        base_sequence=-1,
        record_count=record_count,
    )


def flipped_payload_bit() -> bytearray:
    batch = from_leader()
    batch[-1] ^= 1
    return batch


INVALID: dict[str, tuple[Callable[[], bytes | bytearray], str]] = {
    "no bytes": (lambda: b"", "expected 1 to"),
    "garbage": (lambda: bytes(range(200)), "corrupt batch after offset 2: magic"),
    "header only in part": (lambda: from_leader()[: HEADER_BYTES - 1], "corrupt batch"),
    "truncated batch": (lambda: from_leader()[:-1], "corrupt batch after offset 2"),
    "truncated second batch": (
        lambda: from_leader() + from_leader(base_offset=END + 2)[:-1],
        "corrupt batch after offset 4",
    ),
    "negative length": (lambda: with_field(from_leader(), ">i", 8, -5), "corrupt batch"),
    "huge length": (lambda: with_field(from_leader(), ">i", 8, 2**31 - 1), "corrupt batch"),
    "flipped bit": (flipped_payload_bit, "batch at offset 3 has a wrong checksum"),
    "old magic": (lambda: with_field(from_leader(), ">b", 16, 1), "magic 1"),
    "unknown compression": (
        lambda: with_field(from_leader(), ">h", CHECKED_FROM, 7),
        "compression type 7 is not defined",
    ),
    "offsets below the log end": (
        lambda: from_leader(base_offset=END - 1),
        "batch has offsets 2 to 3, expected them from 3",
    ),
    "negative offset": (lambda: from_leader(base_offset=-1), "expected them from 3"),
    "offset beyond i64": (
        lambda: from_leader(base_offset=2**63 - 2),
        f"batch has offsets {2**63 - 2} to {2**63 - 1}",
    ),
    "repeated batch": (
        lambda: from_leader() + from_leader(),
        "batch has offsets 3 to 4, expected them from 5",
    ),
    "batches too far apart": (
        lambda: from_leader() + from_leader(base_offset=2**40),
        "do not fit into one segment",
    ),
    "older epoch than the log": (
        lambda: from_leader(leader_epoch=3),
        "leader epoch 3, expected 4 to 6",
    ),
    "no epoch": (lambda: from_leader(leader_epoch=-1), "leader epoch -1, expected 4 to 6"),
    "descending epochs": (
        lambda: from_leader() + from_leader(base_offset=END + 2, leader_epoch=4),
        "batch at offset 5 has leader epoch 4, expected 5 to 6",
    ),
    "newer epoch than the leader": (
        lambda: from_leader(leader_epoch=LEADER_EPOCH + 1),
        "leader epoch 7, expected 4 to 6",
    ),
    "huge record count": (
        lambda: with_field(from_leader(), ">i", 57, 2**31 - 1),
        "declares 2147483647 records for 2 offsets",
    ),
    "negative record count": (lambda: with_field(from_leader(), ">i", 57, -1), "corrupt batch"),
    "negative offset delta": (lambda: with_field(from_leader(), ">i", 23, -1), "corrupt batch"),
    "garbage in a marker": (lambda: control_batch(b"\x01garbage"), "corrupt batch"),
    "marker without a record": (lambda: control_batch(b""), "corrupt batch"),
    "compressed marker": (lambda: control_batch(b"", compression=1), "is compressed \\(GZIP\\)"),
}


def follower(directory: Path, configuration: LogConfiguration = SMALL) -> Log:
    log = open_log(directory, configuration)
    append(log, b"a", b"b", b"c", leader_epoch=4, producer_id=1, base_sequence=0)
    return log


def state_of(log: Log, directory: Path) -> object:
    return (
        log.log_end_offset,
        log.leader_epochs.entries(),
        list(log.producers.last_written()),
        log.segment_count,
        {it.name: it.read_bytes() for it in directory.iterdir()},
    )


@pytest.mark.parametrize("invalid", INVALID)
def test_an_invalid_batch_from_a_leader_raises_and_leaves_the_log_unchanged(
    tmp_path: Path, invalid: str
) -> None:
    log = follower(tmp_path)
    before = state_of(log, tmp_path)
    records, message = INVALID[invalid]
    with pytest.raises(InvalidReplicatedBatch, match=message):
        log.append_replicated(bytes(records()), leader_epoch=LEADER_EPOCH, now_ms=NOW)
    assert state_of(log, tmp_path) == before
    valid = bytes(from_leader(b"x"))
    assert log.append_replicated(valid, leader_epoch=LEADER_EPOCH, now_ms=NOW)[:2] == (3, 3)
    assert records_from(log, 2) == [(2, b"c"), (3, b"x")]


def test_a_valid_batch_before_an_invalid_one_is_not_appended(tmp_path: Path) -> None:
    log = follower(tmp_path)
    before = state_of(log, tmp_path)
    records = from_leader() + from_leader(base_offset=END + 2, leader_epoch=1)
    with pytest.raises(InvalidReplicatedBatch):
        log.append_replicated(records, leader_epoch=LEADER_EPOCH, now_ms=NOW)
    assert state_of(log, tmp_path) == before


def test_a_marker_from_the_leader_ends_the_transaction(tmp_path: Path) -> None:
    log = follower(tmp_path)
    data = from_leader(b"x", producer_id=7)
    (batch,) = iterate_batches(data)
    with_field(data, ">h", CHECKED_FROM, batch.attributes | TRANSACTIONAL_FLAG)
    log.append_replicated(data, leader_epoch=LEADER_EPOCH, now_ms=NOW)
    assert log.producers.first_undecided_offset == END
    marker = marker_batch(
        EndTransactionMarker(is_commit=False, coordinator_epoch=0),
        producer_id=7,
        producer_epoch=0,
        timestamp_ms=NOW,
        base_offset=END + 1,
        partition_leader_epoch=5,
    )
    log.append_replicated(marker, leader_epoch=LEADER_EPOCH, now_ms=NOW)
    assert log.producers.first_undecided_offset is None
    (aborted,) = log.aborted_transactions(0, log.log_end_offset)
    assert (aborted.first_offset, aborted.last_offset) == (END, END + 1)


def test_a_log_that_forbids_data_loss_accepts_no_gap_from_the_leader(tmp_path: Path) -> None:
    log = follower(tmp_path, LogConfiguration(forbids_data_loss=True))
    with pytest.raises(InvalidReplicatedBatch, match="offsets 3 to 4 are missing before a batch"):
        log.append_replicated(
            bytes(from_leader(base_offset=5)), leader_epoch=LEADER_EPOCH, now_ms=NOW
        )
    assert log.log_end_offset == END


@given(st.data())
def test_changed_bytes_from_a_leader_are_valid_or_raise_the_named_error(
    data: st.DataObject,
) -> None:
    records = from_leader() + from_leader(base_offset=END + 2, producer_id=9)
    for _ in range(data.draw(st.integers(1, 4))):
        records[data.draw(st.integers(0, len(records) - 1))] = data.draw(st.integers(0, 255))
    records = records[: data.draw(st.integers(0, len(records)))]
    try:
        batches = parse_replicated(
            records, log_end_offset=END, latest_epoch=4, leader_epoch=LEADER_EPOCH, allows_gaps=True
        )
    except InvalidReplicatedBatch:
        return
    assert all(it.is_crc_valid() for it in batches)
    assert sum(it.size_bytes for it in batches) == len(records)
    assert [it.base_offset for it in batches] == sorted({it.base_offset for it in batches})


def slice_of(log: Log, records: bytes | bytearray, *, batches_max: int = 100) -> int:
    return log.append_replicated_slice(
        memoryview(bytes(records)),
        leader_epoch=LEADER_EPOCH,
        batches_max=batches_max,
        now_ms=NOW,
    )


def test_an_incomplete_last_batch_of_a_response_is_left_out(tmp_path: Path) -> None:
    log = follower(tmp_path)
    whole = from_leader()
    for cut in (1, HEADER_BYTES - 1, HEADER_BYTES, len(whole) - 1):
        log.truncate_to(END, NOW)
        response = whole + from_leader(base_offset=END + 2)[:cut]
        assert slice_of(log, response) == len(whole)
        assert slice_of(log, response[len(whole) :]) == 0
        assert log.log_end_offset == END + 2


def test_batches_with_a_later_epoch_than_the_request_are_left_out(tmp_path: Path) -> None:
    log = follower(tmp_path)
    whole = from_leader()
    later = from_leader(base_offset=END + 2, leader_epoch=LEADER_EPOCH + 1)
    assert slice_of(log, whole + later) == len(whole)
    assert slice_of(log, later) == 0
    assert log.leader_epochs.latest_epoch == 5


def test_a_slice_has_at_most_the_given_number_of_batches(tmp_path: Path) -> None:
    log = follower(tmp_path)
    batches = [from_leader(base_offset=END + 2 * number) for number in range(5)]
    response = b"".join(batches)
    used = slice_of(log, response, batches_max=2)
    assert used == len(batches[0]) * 2
    assert log.log_end_offset == END + 4
    assert slice_of(log, response[used:]) == len(response) - used


def test_a_slice_ends_before_a_gap_that_does_not_fit_into_a_segment(tmp_path: Path) -> None:
    log = follower(tmp_path)
    near, far = from_leader(), from_leader(base_offset=2**40)
    assert slice_of(log, near + far) == len(near)
    assert slice_of(log, far) == len(far)
    assert log.segments()[-1].base_offset == 2**40


@pytest.mark.parametrize(
    "invalid",
    sorted(
        INVALID.keys()
        - {
            "no bytes",
            "header only in part",
            "truncated batch",
            "truncated second batch",
            "huge length",
            "newer epoch than the leader",
            "batches too far apart",
        }
    ),
)
def test_an_invalid_batch_in_a_slice_raises_and_leaves_the_log_unchanged(
    tmp_path: Path, invalid: str
) -> None:
    log = follower(tmp_path)
    before = state_of(log, tmp_path)
    records, message = INVALID[invalid]
    with pytest.raises(InvalidReplicatedBatch, match=message):
        slice_of(log, bytes(records()))
    assert state_of(log, tmp_path) == before


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.data())
def test_sealed_segments_of_leader_and_follower_are_identical(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("logs")
    leader, copy = open_log(directory / "leader"), open_log(directory / "copy")
    timestamp = NOW
    for size in sizes:
        timestamp += data.draw(st.sampled_from([0, 1, SMALL.segment_ms + 1]))
        append(leader, b"v" * size * 10, timestamp=timestamp)
        if data.draw(st.booleans()):
            catch_up(copy, leader, data)
    catch_up(copy, leader, data)
    for one, other in zip(leader.segments(), copy.segments(), strict=True):
        assert one.base_offset == other.base_offset
        assert bytes(one.file.view_all()) == bytes(other.file.view_all())


def catch_up(copy: Log, leader: Log, data: st.DataObject) -> None:
    while copy.log_end_offset < leader.log_end_offset:
        response = leader.read(
            copy.log_end_offset,
            bytes_max=data.draw(st.integers(1, 2000)),
            end_offset=leader.log_end_offset,
        )
        assert response is not None
        assert copy.append_replicated_slice(
            response.view, leader_epoch=0, batches_max=data.draw(st.integers(1, 5)), now_ms=NOW
        )
