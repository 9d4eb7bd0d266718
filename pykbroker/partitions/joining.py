"""Verification of transactions: producers that begin a transaction in a partition.

The first batch of a transaction is appended only after the transaction coordinator has confirmed
that the partition belongs to the transaction. After that batch, the producer state of the log
proves it. While the request to the coordinator is pending, the transaction can end; its response is
then obsolete (Kafka's verification guard).

A producer can begin its next transaction before the marker of the previous one arrives here.
Therefore the producer epoch decides which verifications a marker makes obsolete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_storage.producer_state import STRICT_EPOCHS_SINCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker_protocol.records.batch import RecordBatch


NONE_JOINING: Mapping[int, Joining] = {}


class Joining:
    """The verification of one producer in one epoch."""

    __slots__ = (
        "begins_at_zero",
        "has_joined",
        "least_sequence",
        "pending_requests",
        "producer_epoch",
        "requested_ms",
    )

    def __init__(
        self, producer_epoch: int, base_sequence: int, *, begins_at_zero: bool, now_ms: int
    ) -> None:
        self.producer_epoch = producer_epoch
        self.least_sequence = base_sequence
        """The lowest base sequence of the batches that wait; that batch must be appended first."""
        self.begins_at_zero = begins_at_zero
        self.requested_ms = now_ms
        self.pending_requests = 0
        """Pending requests to the coordinator."""
        self.has_joined = False


class JoiningProducers:
    """Verifications by producer id and epoch; they expire like idle producers."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, dict[int, Joining]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_id.values()))

    def ask(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        begins_at_zero: bool,
        now_ms: int,
    ) -> Joining:
        """Begins a verification; pass the result to `answered` with the coordinator's response.

        With transaction version 2 each transaction has a new epoch and `begins_at_zero`.
        """
        epochs = self._by_id.setdefault(producer_id, {})
        joining = epochs.get(producer_epoch)
        if joining is None:
            joining = epochs[producer_epoch] = Joining(
                producer_epoch, base_sequence, begins_at_zero=begins_at_zero, now_ms=now_ms
            )
        joining.least_sequence = min(joining.least_sequence, base_sequence)
        joining.pending_requests += 1
        return joining

    def answered(self, producer_id: int, joining: Joining, *, has_joined: bool) -> None:
        """Ends a pending request. The transaction may have ended since it was sent."""
        joining.pending_requests -= 1
        joining.has_joined |= has_joined
        epochs = self._by_id.get(producer_id, {})
        if not joining.has_joined and not joining.pending_requests:
            if epochs.get(joining.producer_epoch) is joining:
                del epochs[joining.producer_epoch]  # bounds memory against unknown producers
            if not epochs:
                self._by_id.pop(producer_id, None)

    def holds(self, producer_id: int, joining: Joining) -> bool:
        """Returns False if a marker or a change of leadership has made the request obsolete."""
        return self._by_id.get(producer_id, NONE_JOINING).get(joining.producer_epoch) is joining

    def discard(self, producer_id: int, last_epoch: int) -> None:
        """Discards verifications up to an epoch whose transaction is in the log or has ended."""
        epochs = self._by_id.get(producer_id, NONE_JOINING)
        later = {epoch: it for epoch, it in epochs.items() if epoch > last_epoch}
        if later:
            self._by_id[producer_id] = later
        else:
            self._by_id.pop(producer_id, None)

    def expire(self, now_ms: int, producer_id_expiration_ms: int) -> None:
        for producer_id, epochs in tuple(self._by_id.items()):
            if all(now_ms - it.requested_ms >= producer_id_expiration_ms for it in epochs.values()):
                del self._by_id[producer_id]

    def verdict_on_first(
        self, batch: RecordBatch, verdict: Refusal | None, *, is_known: bool
    ) -> Refusal | None:
        """Returns a refusal, or None if the batch may begin its transaction in this partition.

        `verdict` is that of the producer state; `is_known` means that the producer state has the
        producer and has checked the sequence number.
        """
        joining = self._by_id.get(batch.producer_id, NONE_JOINING).get(batch.producer_epoch)
        if joining is None or not joining.has_joined:
            return not_joined(batch)
        if verdict is not None:
            return verdict
        first_sequence = 0 if joining.begins_at_zero else joining.least_sequence
        if not is_known and batch.base_sequence > first_sequence:
            return out_of_order(batch)
        self.discard(batch.producer_id, batch.producer_epoch)  # it is in the log now
        return None


def last_epoch_ended(marker_epoch: int, transaction_version: int) -> int:
    """Returns the epoch that a marker ends; since version 2 it has the next epoch (KIP-890)."""
    return marker_epoch - 1 if transaction_version >= STRICT_EPOCHS_SINCE else marker_epoch


def not_joined(batch: RecordBatch) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TXN_STATE,
        f"Producer {batch.producer_id} with epoch {batch.producer_epoch} has no open transaction "
        "that includes this partition.",
    )


def out_of_order(batch: RecordBatch) -> Refusal:
    return Refusal(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Producer {batch.producer_id} with epoch {batch.producer_epoch} begins its transaction "
        f"with sequence {batch.base_sequence}; an earlier batch is missing.",
    )
