"""Tracks aborted transactions and obsolete markers during compaction."""

from collections import deque
from collections.abc import Iterable, Sequence

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.control import EndTransactionMarker, decode_marker
from pykbroker_storage.transaction_index import AbortedTransaction


class CleanedTransactions:
    """Receives batches in log order; `aborted_kept` collects aborted transactions that had data."""

    __slots__ = ("_aborted", "_aborted_open", "_upcoming", "_with_data", "aborted_kept")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda it: it.first_offset))
        self._aborted_open: dict[int, AbortedTransaction] = {}  # by producer id
        self._with_data: set[int] = set()  # producers whose open transaction has data
        self.aborted_kept: list[AbortedTransaction] = []

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Returns whether a batch of records belongs to an aborted transaction."""
        self._begin_until(batch.last_offset)
        if not batch.is_transactional:
            return False
        self._with_data.add(batch.producer_id)
        return batch.producer_id in self._aborted_open

    def is_marker_obsolete(self, batch: RecordBatch) -> bool:
        """Returns whether all data batches of the marker's transaction were removed before."""
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
        while self._upcoming and self._upcoming[0].first_offset <= offset:
            transaction = self._upcoming.popleft()
            self._aborted_open[transaction.producer_id] = transaction


def marker_of(batch: RecordBatch) -> EndTransactionMarker | None:
    """Returns the marker in a control batch; None if it was removed or is of another type."""
    markers: Iterable[EndTransactionMarker | None] = (
        decode_marker(record.key, record.value) for record in batch.records()
    )
    return next(iter(markers), None)
