"""Producers that are about to begin a transaction in a partition, and wait for its coordinator.

A batch that belongs to a transaction comes in only while the coordinator knows that the partition
takes part. Once the first is written, the log tells so; before it, somebody has to ask. While the
answer is under way the transaction may end: what was asked about is over then, and the answer is
worth nothing (Kafka calls this verification, and the question a verification guard).

Whoever has heard that its transaction ends may ask about the next one before the end has come here.
So what is over is told by the epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_storage.producer_state import STRICT_EPOCHS_SINCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker_protocol.records.batch import RecordBatch


NOBODY: Mapping[int, Joining] = {}


class Joining:
    """One producer in one epoch, from the first question on."""

    __slots__ = (
        "asked_ms",
        "begins_at_zero",
        "has_joined",
        "least_sequence",
        "producer_epoch",
        "questions",
    )

    def __init__(
        self, producer_epoch: int, base_sequence: int, *, begins_at_zero: bool, now_ms: int
    ) -> None:
        self.producer_epoch = producer_epoch
        self.least_sequence = base_sequence
        """Of several batches whose answers are under way, the first one has to come first."""
        self.begins_at_zero = begins_at_zero
        self.asked_ms = now_ms
        self.questions = 0
        """How many are under way."""
        self.has_joined = False


class JoiningProducers:
    """By id and epoch; who has joined and never writes is forgotten with the silent producers."""

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
        """Before the coordinator is asked; what comes back is for `answered`.

        A producer of version 2 has a new epoch for each transaction, so each `begins_at_zero`.
        """
        epochs = self._by_id.setdefault(producer_id, {})
        joining = epochs.get(producer_epoch)
        if joining is None:
            joining = epochs[producer_epoch] = Joining(
                producer_epoch, base_sequence, begins_at_zero=begins_at_zero, now_ms=now_ms
            )
        joining.least_sequence = min(joining.least_sequence, base_sequence)
        joining.questions += 1
        return joining

    def answered(self, producer_id: int, joining: Joining, *, has_joined: bool) -> None:
        """Whether the coordinator knows that the partition takes part; it may be over by now."""
        joining.questions -= 1
        joining.has_joined |= has_joined
        epochs = self._by_id.get(producer_id, {})
        if not joining.has_joined and not joining.questions:
            if epochs.get(joining.producer_epoch) is joining:
                del epochs[joining.producer_epoch]  # strangers cannot fill the memory
            if not epochs:
                self._by_id.pop(producer_id, None)

    def forget(self, producer_id: int, last_epoch: int) -> None:
        """The transaction of this epoch has begun here, or has ended, and so have all before it."""
        epochs = self._by_id.get(producer_id, NOBODY)
        later = {epoch: it for epoch, it in epochs.items() if epoch > last_epoch}
        if later:
            self._by_id[producer_id] = later
        else:
            self._by_id.pop(producer_id, None)

    def expire(self, now_ms: int, producer_id_expiration_ms: int) -> None:
        for producer_id, epochs in tuple(self._by_id.items()):
            if all(now_ms - it.asked_ms >= producer_id_expiration_ms for it in epochs.values()):
                del self._by_id[producer_id]

    def verdict_on_first(
        self, batch: RecordBatch, verdict: Refusal | None, *, is_known: bool
    ) -> Refusal | None:
        """Whether a batch may begin its transaction here; the log itself has come to a verdict.

        `is_known`: the log remembers the producer, so it can tell which batch comes next.
        """
        joining = self._by_id.get(batch.producer_id, NOBODY).get(batch.producer_epoch)
        if joining is None or not joining.has_joined:
            return not_joined(batch)
        if verdict is not None:
            return verdict
        first_sequence = 0 if joining.begins_at_zero else joining.least_sequence
        if not is_known and batch.base_sequence > first_sequence:
            return out_of_order(batch)
        self.forget(batch.producer_id, batch.producer_epoch)  # from here on the log tells
        return None


def last_epoch_ended(marker_epoch: int, transaction_version: int) -> int:
    """Since version 2 a marker has the epoch that the producer goes on with (KIP-890)."""
    return marker_epoch - 1 if transaction_version >= STRICT_EPOCHS_SINCE else marker_epoch


def not_joined(batch: RecordBatch) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TXN_STATE,
        f"Producer {batch.producer_id} of epoch {batch.producer_epoch} has no transaction open "
        "that this partition takes part in.",
    )


def out_of_order(batch: RecordBatch) -> Refusal:
    return Refusal(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Producer {batch.producer_id} of epoch {batch.producer_epoch} begins its transaction "
        f"with sequence {batch.base_sequence}; an earlier one is missing.",
    )
