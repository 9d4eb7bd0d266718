"""Faults of a broker, each with the scenarios that must detect it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compat.sabotage.frame_change import FrameChange
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.corrupt import TruncatedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykbroker_protocol.records.record import Record

Rows = list[tuple[int, bytes | None, bytes | None, list[Any]]]
"""Timestamp, key, value and headers of the records of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    name: str
    sentence: str
    frame_changes: tuple[FrameChange, ...]
    caught_by: tuple[str, ...]
    """Each of these scenarios must fail with the fault."""


def fault(name: str, sentence: str, caught_by: str, *frame_changes: FrameChange) -> Fault:
    scenarios = tuple(caught_by.split(","))
    return Fault(name=name, sentence=sentence, frame_changes=frame_changes, caught_by=scenarios)


def answers(api_key: ApiKey, **fields: Callable[[Any], Any]) -> FrameChange:
    return FrameChange(api_key=api_key, fields=fields)


def requests(api_key: ApiKey, **fields: Callable[[Any], Any]) -> FrameChange:
    return FrameChange(api_key=api_key, of_requests=True, fields=fields)


# --- changes


def one_more(number: int) -> int:
    return number + 1 if number >= 0 else number


def nothing(_: Any) -> Any:
    return 0


def no_elements(_: Any) -> Any:
    return ()


def another_error(code: int) -> int:
    return 0 if code == 0 else 1


def without_the_last(elements: Any) -> Any:
    return elements[:-1]


def in_batches(change: Callable[[Rows], Rows]) -> Callable[[Any], Any]:
    """Changes the records of each batch, except compressed and transactional batches."""

    def changed(records: Any) -> Any:
        if not records:
            return records
        return b"".join(_rewritten(it, change) for it in _whole(bytes(records)))

    return changed


def _whole(records: bytes) -> Iterator[RecordBatch]:
    try:
        yield from iterate_batches(records)
    except TruncatedBatch:
        return


def _rewritten(batch: RecordBatch, change: Callable[[Rows], Rows]) -> bytes:
    if batch.attributes:
        return bytes(batch.view)
    rows = change([_row(it) for it in batch.records()])
    builder = BatchBuilder(
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
    for row in rows:
        builder.append(*row)
    return builder.build()


def _row(it: Record) -> tuple[int, bytes | None, bytes | None, list[Any]]:
    return it.timestamp, it.key, it.value, list(it.headers)


def no_headers(rows: Rows) -> Rows:
    return [(at, key, value, []) for at, key, value, _ in rows]


def times_reversed(rows: Rows) -> Rows:
    times = [row[0] for row in reversed(rows)]
    return [(at, *row[1:]) for at, row in zip(times, rows, strict=True)]


def keys_as_values(rows: Rows) -> Rows:
    return [(at, value, key, headers) for at, key, value, headers in rows]


def empty_for_null(rows: Rows) -> Rows:
    return [(at, key, value or b"", headers) for at, key, value, headers in rows]


def last_lost(rows: Rows) -> Rows:
    return rows[:-1] or rows


def last_doubled(rows: Rows) -> Rows:
    return [*rows[:-1], rows[-1], rows[-1]]


def null_keys(rows: Rows) -> Rows:
    return [(at, key or None, value, headers) for at, key, value, headers in rows]


FAULTS = (
    fault(
        "wrong-base-offset",
        "Produce returns an offset that is too high by one.",
        "produce-acks-all-none",
        answers(ApiKey.PRODUCE, base_offset=one_more),
    ),
    fault(
        "lost-header",
        "Fetched records have no headers.",
        "consume-any-record",
        answers(ApiKey.FETCH, records=in_batches(no_headers)),
    ),
    fault(
        "swapped-timestamps",
        "The timestamps of the records of a batch are swapped.",
        "consume-from-beginning",
        answers(ApiKey.FETCH, records=in_batches(times_reversed)),
    ),
    fault(
        "swapped-key-and-value",
        "Keys and values of fetched records are swapped.",
        "consume-any-record",
        answers(ApiKey.FETCH, records=in_batches(keys_as_values)),
    ),
    fault(
        "null-is-empty",
        "Null values are returned as empty values.",
        "consume-any-record",
        answers(ApiKey.FETCH, records=in_batches(empty_for_null)),
    ),
    fault(
        "lost-record",
        "The last record of each fetched batch is missing.",
        "consume-from-beginning",
        answers(ApiKey.FETCH, records=in_batches(last_lost)),
    ),
    fault(
        "lost-on-the-way-in",
        "The last record of each produced batch is not written.",
        "produce-acks-1-none",
        requests(ApiKey.PRODUCE, records=in_batches(last_lost)),
    ),
    fault(
        "doubled-on-the-way-in",
        "The last record of each produced batch is written twice.",
        "produce-acks-1-none",
        requests(ApiKey.PRODUCE, records=in_batches(last_doubled)),
    ),
    fault(
        "headers-not-written",
        "Headers are not written.",
        "produce-headers",
        requests(ApiKey.PRODUCE, records=in_batches(no_headers)),
    ),
    fault(
        "empty-key-not-written",
        "An empty key is written as null.",
        "produce-keys",
        requests(ApiKey.PRODUCE, records=in_batches(null_keys)),
    ),
    fault(
        "aborted-data-shown",
        "Fetch returns no aborted transactions to read_committed consumers.",
        "transaction-aborts",
        answers(ApiKey.FETCH, aborted_transactions=no_elements),
    ),
    fault(
        "open-transaction-shown",
        "read_committed consumers receive records of open transactions.",
        "transaction-open",
        requests(ApiKey.FETCH, isolation_level=nothing),
    ),
    fault(
        "fenced-producer-accepted",
        "A fenced producer gets no error.",
        "transaction-fences",
        answers(ApiKey.PRODUCE, error_code=nothing),
        answers(ApiKey.END_TXN, error_code=nothing),
        answers(ApiKey.ADD_PARTITIONS_TO_TXN, error_code=nothing, partition_error_code=nothing),
    ),
    fault(
        "end-one-too-far",
        "ListOffsets returns offsets that are too high by one.",
        "consume-offsets",
        answers(ApiKey.LIST_OFFSETS, offset=one_more),
    ),
    fault(
        "time-one-second-late",
        "ListOffsets searches one second after the requested timestamp.",
        "consume-from-timestamp",
        requests(ApiKey.LIST_OFFSETS, timestamp=lambda it: it + 1_000 if it >= 0 else it),
    ),
    fault(
        "committed-offset-off-by-one",
        "OffsetFetch returns an offset that is too high by one.",
        "committed-offsets",
        answers(ApiKey.OFFSET_FETCH, committed_offset=one_more),
    ),
    fault(
        "commit-of-nothing",
        "Every OffsetCommit stores offset 0.",
        "commit-of-an-offset,committed-offsets",
        requests(ApiKey.OFFSET_COMMIT, committed_offset=nothing),
    ),
    fault(
        "metadata-lost",
        "The metadata of committed offsets is lost.",
        "commit-metadata",
        requests(ApiKey.OFFSET_COMMIT, committed_metadata=lambda _: ""),
    ),
    fault(
        "stale-member-accepted",
        "A fenced static member gets no error.",
        "group-static-member-fenced",
        answers(ApiKey.OFFSET_COMMIT, error_code=nothing),
        answers(ApiKey.HEARTBEAT, error_code=nothing),
    ),
    fault(
        "error-swallowed",
        "Creating an existing topic returns no error.",
        "error-topic-exists",
        answers(ApiKey.CREATE_TOPICS, error_code=nothing),
    ),
    fault(
        "wrong-error",
        "Deleting a missing topic returns the wrong error.",
        "error-topic-unknown",
        answers(ApiKey.DELETE_TOPICS, error_code=another_error),
    ),
    fault(
        "low-watermark-wrong",
        "DeleteRecords returns a low watermark that is too high by one.",
        "records-delete",
        answers(ApiKey.DELETE_RECORDS, low_watermark=one_more),
    ),
    fault(
        "configuration-wrong",
        "Every property has the value 1.",
        "configs-describe",
        answers(ApiKey.DESCRIBE_CONFIGS, value=lambda _: "1"),
    ),
    fault(
        "group-missing",
        "The list of groups is empty.",
        "groups-list",
        answers(ApiKey.LIST_GROUPS, groups=no_elements),
    ),
    fault(
        "partition-missing",
        "The last partition is missing in Metadata responses.",
        "produce-partition-as-java",
        answers(ApiKey.METADATA, partitions=without_the_last),
    ),
    fault(
        "impatient",
        "Fetch returns immediately without records.",
        "long-poll-waits",
        requests(ApiKey.FETCH, max_wait_ms=nothing),
    ),
    fault(
        "deaf",
        "A waiting Fetch does not return when records are written.",
        "long-poll-returns",
        requests(ApiKey.FETCH, min_bytes=lambda _: 1 << 20, max_wait_ms=lambda _: 18_000),
    ),
)
