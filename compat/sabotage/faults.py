"""Faults that a broker might have, each with the scenarios that have to find it."""

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
    """Each of these scenarios has to be false under the fault."""


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
    """Other records in each batch; batches that compress or belong to transactions are left."""

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
        "Produce answers with an offset that is one too great.",
        "produce-acks-all-none",
        answers(ApiKey.PRODUCE, base_offset=one_more),
    ),
    fault(
        "lost-header",
        "Records come without their headers.",
        "consume-any-record",
        answers(ApiKey.FETCH, records=in_batches(no_headers)),
    ),
    fault(
        "swapped-timestamps",
        "The records of a batch have each other's times.",
        "consume-from-beginning",
        answers(ApiKey.FETCH, records=in_batches(times_reversed)),
    ),
    fault(
        "swapped-key-and-value",
        "Keys come as values.",
        "consume-any-record",
        answers(ApiKey.FETCH, records=in_batches(keys_as_values)),
    ),
    fault(
        "null-is-empty",
        "A value that is none comes as an empty one.",
        "consume-any-record",
        answers(ApiKey.FETCH, records=in_batches(empty_for_null)),
    ),
    fault(
        "lost-record",
        "The last record of each batch is missing for readers.",
        "consume-from-beginning",
        answers(ApiKey.FETCH, records=in_batches(last_lost)),
    ),
    fault(
        "lost-on-the-way-in",
        "Of each batch the last record is not written.",
        "produce-acks-1-none",
        requests(ApiKey.PRODUCE, records=in_batches(last_lost)),
    ),
    fault(
        "doubled-on-the-way-in",
        "Of each batch the last record is written twice.",
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
        "An empty key is written as none.",
        "produce-keys",
        requests(ApiKey.PRODUCE, records=in_batches(null_keys)),
    ),
    fault(
        "aborted-data-shown",
        "Readers of committed records are not told which are aborted.",
        "transaction-aborts",
        answers(ApiKey.FETCH, aborted_transactions=no_elements),
    ),
    fault(
        "open-transaction-shown",
        "Readers of committed records get those of open transactions.",
        "transaction-open",
        requests(ApiKey.FETCH, isolation_level=nothing),
    ),
    fault(
        "fenced-producer-accepted",
        "A producer that was fenced is told that all is well.",
        "transaction-fences",
        answers(ApiKey.PRODUCE, error_code=nothing),
        answers(ApiKey.END_TXN, error_code=nothing),
        answers(ApiKey.ADD_PARTITIONS_TO_TXN, error_code=nothing, partition_error_code=nothing),
    ),
    fault(
        "end-one-too-far",
        "Partitions end one record later than they do.",
        "consume-offsets",
        answers(ApiKey.LIST_OFFSETS, offset=one_more),
    ),
    fault(
        "time-one-second-late",
        "Records are looked up a second after the time that was asked for.",
        "consume-from-timestamp",
        requests(ApiKey.LIST_OFFSETS, timestamp=lambda it: it + 1_000 if it >= 0 else it),
    ),
    fault(
        "committed-offset-off-by-one",
        "A group is told an offset that is one too great.",
        "committed-offsets",
        answers(ApiKey.OFFSET_FETCH, committed_offset=one_more),
    ),
    fault(
        "commit-of-nothing",
        "Whatever is committed, offset 0 is kept.",
        "commit-of-an-offset,committed-offsets",
        requests(ApiKey.OFFSET_COMMIT, committed_offset=nothing),
    ),
    fault(
        "metadata-lost",
        "What is noted beside an offset is not kept.",
        "commit-metadata",
        requests(ApiKey.OFFSET_COMMIT, committed_metadata=lambda _: ""),
    ),
    fault(
        "stale-member-accepted",
        "A member that was replaced is told that all is well.",
        "group-static-member-fenced",
        answers(ApiKey.OFFSET_COMMIT, error_code=nothing),
        answers(ApiKey.HEARTBEAT, error_code=nothing),
    ),
    fault(
        "error-swallowed",
        "A topic that is there already is made again, it is said.",
        "error-topic-exists",
        answers(ApiKey.CREATE_TOPICS, error_code=nothing),
    ),
    fault(
        "wrong-error",
        "Another error is told than the one there is.",
        "error-topic-unknown",
        answers(ApiKey.DELETE_TOPICS, error_code=another_error),
    ),
    fault(
        "low-watermark-wrong",
        "DeleteRecords tells of a start that is one too great.",
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
        "Clients are not told of the last partition.",
        "produce-partition-as-java",
        answers(ApiKey.METADATA, partitions=without_the_last),
    ),
    fault(
        "impatient",
        "Fetch is answered at once, though there is nothing.",
        "long-poll-waits",
        requests(ApiKey.FETCH, max_wait_ms=nothing),
    ),
    fault(
        "deaf",
        "Who waits for records is not woken when there are some.",
        "long-poll-returns",
        requests(ApiKey.FETCH, min_bytes=lambda _: 1 << 20, max_wait_ms=lambda _: 18_000),
    ),
)
