"""Which batches belong to aborted transactions, and which markers have nothing left to end.

First the transactions that were aborted are found, by reading headers and markers; then a second
reader of the same batches asks about each of them in turn.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.control import EndTransactionMarker, decode_marker
from pykbroker_storage.aborted import AbortedTransaction


class AbortedFinder:
    """Shown a log's batches in order, it knows which transactions have been aborted."""

    __slots__ = ("_open", "aborted")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # producer id -> first offset, in order of the offsets
        self.aborted: list[AbortedTransaction] = []

    def see(self, batch: RecordBatch) -> None:
        if not batch.is_transactional:
            return
        if not batch.is_control:
            self._open.setdefault(batch.producer_id, batch.base_offset)
            return
        marker = marker_of(batch)
        first_offset = self._open.pop(batch.producer_id, None) if marker else None
        if marker is None or marker.is_commit or first_offset is None:
            return
        self.aborted.append(
            AbortedTransaction(
                producer_id=batch.producer_id,
                first_offset=first_offset,
                last_offset=batch.last_offset,
                last_stable_offset=next(iter(self._open.values()), batch.next_offset),
            )
        )

    def has_open_before(self, offset: int) -> bool:
        """Whether the end of a transaction that began before `offset` has not been seen yet."""
        return next(iter(self._open.values()), offset) < offset


class TransactionsSeen:
    """Asked about each batch in order; `aborted_kept` gathers those whose data was still there."""

    __slots__ = ("_aborted", "_aborted_open", "_coming", "_with_data", "aborted_kept")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda it: it.first_offset))
        self._aborted_open: dict[int, AbortedTransaction] = {}  # by producer
        self._with_data: set[int] = set()  # producers with data in the transaction that is open
        self.aborted_kept: list[AbortedTransaction] = []

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether a batch of records belongs to a transaction that ends by being aborted."""
        self._begin_until(batch.last_offset)
        if not batch.is_transactional:
            return False
        self._with_data.add(batch.producer_id)
        return batch.producer_id in self._aborted_open

    def is_marker_idle(self, batch: RecordBatch) -> bool:
        """Whether none of the data that this control batch speaks about is there any longer."""
        self._begin_until(batch.last_offset)
        if not batch.record_count:
            return True
        if marker_of(batch) is None:
            return False
        producer_id = batch.producer_id
        aborted = self._aborted_open.pop(producer_id, None)
        if producer_id not in self._with_data:
            return True
        self._with_data.discard(producer_id)
        if aborted is not None:
            self.aborted_kept.append(aborted)
        return False

    def take_aborted_kept(self) -> list[AbortedTransaction]:
        kept, self.aborted_kept = self.aborted_kept, []
        return kept

    def _begin_until(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            transaction = self._coming.popleft()
            self._aborted_open[transaction.producer_id] = transaction


def marker_of(batch: RecordBatch) -> EndTransactionMarker | None:
    """What a control batch says of a transaction; None if that was compacted away, or is else."""
    markers: Iterable[EndTransactionMarker | None] = (
        decode_marker(record.key, record.value) for record in batch.records()
    )
    return next(iter(markers), None)
