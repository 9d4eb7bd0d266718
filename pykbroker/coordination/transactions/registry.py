"""The transactional ids of one partition of `__transaction_state`, and dispatch of requests.

The table in `states` defines the result per state; `init_producer_id`, `add_partitions` and
`end_txn` decide the requests. Every request is answered immediately.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker.coordination.outcome import Reply, SetTimer
from pykbroker.coordination.transactions import add_partitions, end_txn, init_producer_id, listing
from pykbroker.coordination.transactions.init_producer_id import Init, Recovery
from pykbroker.coordination.transactions.outcome import Markers, TransactionOutcome
from pykbroker.coordination.transactions.records import tombstone_of, transaction_of, write_of
from pykbroker.coordination.transactions.states import ANSWERS, PREPARED, TransactionState
from pykbroker_protocol.internal_topics.transactions import TransactionLogKey, TransactionLogValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykbroker.coordination.outcome import Ticket
    from pykbroker.coordination.transactions.outcome import TopicPartition
    from pykbroker.coordination.transactions.reconciliation import ProducerOnPartitions
    from pykbroker.coordination.transactions.settings import TransactionSettings
    from pykbroker.coordination.transactions.step import Step
    from pykbroker.coordination.transactions.transaction import Transaction
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages import describe_transactions
    from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
    from pykbroker_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
    from pykbroker_protocol.messages.end_txn import EndTxnRequest
    from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest

TIMEOUT_TIMER = ("transaction-timeout",)
EXPIRY_TIMER = ("transactional-id-expiry",)
PARTITIONS_PER_SWEEP_MAX = 1_000
"""Limits the records of one sweep to one batch; the next sweep continues."""
TOMBSTONES_PER_SWEEP_MAX = 1_000
NEXT_SWEEP_MS = 100
LOSSES_LOGGED_MAX = 5
"""Log lines per batch of transactional ids that are repaired after a power loss."""


class Transactions:
    """Decides requests and timers; only replayed records change the state."""

    def __init__(
        self,
        settings: TransactionSettings,
        *,
        coordinator_epoch: int,
        transaction_version: int = 2,
    ) -> None:
        self.settings = settings
        self.coordinator_epoch = coordinator_epoch
        """Leader epoch of the partition; markers of an earlier coordinator are rejected by it."""
        self.transaction_version = transaction_version
        """The feature level of the cluster, updated by the runtime."""
        self.transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        self._recoveries: dict[str, Recovery] = {}
        """Not in the log, as in Kafka: after a crash a retry is fenced."""
        self._marked: dict[str, Markers] = {}
        """Transactions whose markers are all written and whose complete record is not replayed."""

    def needs_producer_id(self, transactional_id: str) -> bool:
        """Returns whether the next InitProducerId or EndTxn needs a new producer id."""
        transaction = self.transactions.get(transactional_id)
        return transaction is None or transaction.is_exhausted

    # --- requests of producers

    def init_producer_id(
        self,
        request: InitProducerIdRequest,
        *,
        version: int,
        ticket: Ticket,
        new_producer_id: int | None,
        now_ms: int,
    ) -> TransactionOutcome:
        transactional_id = request.transactional_id or ""
        transaction = self.transactions.get(transactional_id)
        init = Init(
            request=request,
            version=version,
            new_producer_id=new_producer_id,
            recovery=self._recoveries.get(transactional_id),
            transaction_version=self.transaction_version,
            now_ms=now_ms,
        )
        step = init_producer_id.init_producer_id(init, transaction, self.settings)
        if transaction is not None:
            self._store_recovery(init, step)
        return self._outcome(step, ticket)

    def _store_recovery(self, init: Init, step: Step) -> None:
        """Stores the recovery, which is valid as long as the granted epoch is the current one."""
        if init.producer is None or not step.new_states:
            return
        (given,) = step.new_states
        if given.state is TransactionState.EMPTY:
            self._recoveries[given.transactional_id] = Recovery(init.producer, given.owner)

    def add_partitions_to_txn(
        self, requested: AddPartitionsToTxnTransaction, *, version: int, ticket: Ticket, now_ms: int
    ) -> TransactionOutcome:
        """Decides one transaction of a request and replies with its `AddPartitionsToTxnResult`.

        `add_partitions` converts requests and responses of all versions. The caller has checked
        before that the partitions exist.
        """
        step = add_partitions.add_partitions(
            requested,
            self.transactions.get(requested.transactional_id),
            version=version,
            transaction_version=self.transaction_version,
            now_ms=now_ms,
        )
        return self._outcome(step, ticket)

    def add_offsets_to_txn(
        self,
        request: AddOffsetsToTxnRequest,
        *,
        version: int,
        ticket: Ticket,
        offsets_partition: TopicPartition,
        now_ms: int,
    ) -> TransactionOutcome:
        step = add_partitions.add_offsets(
            request,
            self.transactions.get(request.transactional_id),
            version=version,
            offsets_partition=offsets_partition,
            now_ms=now_ms,
        )
        return self._outcome(step, ticket)

    def end_txn(
        self,
        request: EndTxnRequest,
        *,
        version: int,
        ticket: Ticket,
        new_producer_id: int | None,
        now_ms: int,
    ) -> TransactionOutcome:
        end = end_txn.End(
            request=request,
            version=version,
            new_producer_id=new_producer_id,
            transaction_version=self.transaction_version,
            now_ms=now_ms,
        )
        step = end_txn.end_txn(end, self.transactions.get(request.transactional_id))
        return self._outcome(step, ticket)

    # --- reports of the runtime

    def markers_written(self, markers: Markers, now_ms: int) -> TransactionOutcome:
        """Completes a transaction: every partition has its marker or is deleted."""
        prepared = self._prepared_for(markers)
        if prepared is None:
            return TransactionOutcome()
        self._marked[markers.transactional_id] = markers
        return self._changed((prepared.completed(now_ms),))

    def _prepared_for(self, markers: Markers) -> Transaction | None:
        transaction = self.transactions.get(markers.transactional_id)
        if transaction is None or transaction.state not in PREPARED:
            return None
        is_same = transaction.owner == (markers.producer_id, markers.producer_epoch)
        return transaction if is_same else None

    # --- requests of operators

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> list[describe_transactions.TransactionState]:
        return [listing.described(it, self.transactions.get(it)) for it in transactional_ids]

    # --- replay

    def replay(self, key: Message, value: Message | None) -> None:
        assert isinstance(key, TransactionLogKey), f"unexpected key {type(key).__name__}"
        transactional_id = key.transactional_id
        self._ongoing.pop(transactional_id, None)
        self._marked.pop(transactional_id, None)
        if value is None:
            self.transactions.pop(transactional_id, None)
            self._recoveries.pop(transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        transaction = self.transactions[transactional_id] = transaction_of(key, value)
        if transaction.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
        recovery = self._recoveries.get(transactional_id)
        if recovery is not None and recovery.given != transaction.owner:
            del self._recoveries[transactional_id]

    def loaded(self, now_ms: int) -> TransactionOutcome:
        """Returns the markers of all prepared transactions and starts the timers."""
        prepared = [it for it in self.transactions.values() if it.state in PREPARED]
        return TransactionOutcome(
            markers=tuple(self._markers_for(it) for it in prepared),
            timers=(
                SetTimer(TIMEOUT_TIMER, now_ms + self.settings.timeout_check_interval_ms),
                SetTimer(EXPIRY_TIMER, now_ms + self.settings.expiry_check_interval_ms),
            ),
        )

    def reconcile(
        self,
        transactional_ids: Iterable[str],
        seen: Callable[[int], ProducerOnPartitions | None],
        now_ms: int,
    ) -> TransactionOutcome:
        """Repairs ids that lost records in a power loss; `seen` looks up a producer id."""
        from pykbroker.coordination.transactions.reconciliation import (  # noqa: PLC0415 - rarely needed
            reconciled,
        )

        repaired: list[Transaction] = []
        for transactional_id in transactional_ids:
            before = self.transactions.get(transactional_id)
            found = None if before is None else seen(before.producer_id)
            if before is None or found is None:
                continue
            after = reconciled(
                before, found, transaction_version=self.transaction_version, now_ms=now_ms
            )
            if after is not None:
                repaired.append(after)
        reasons = [loss_message(it) for it in repaired[:LOSSES_LOGGED_MAX]]
        if len(repaired) > LOSSES_LOGGED_MAX:
            reasons.append(f"{len(repaired) - LOSSES_LOGGED_MAX} more transactional ids repaired")
        new_states = [
            step
            for it in repaired
            for step in (end_txn.with_completion(it, now_ms) if it.state in PREPARED else (it,))
        ]
        return replace(self._changed(tuple(new_states), reasons=tuple(reasons)), in_parts=True)

    # --- timers

    def timer(self, name: tuple[str, ...], now_ms: int) -> TransactionOutcome:
        if name == TIMEOUT_TIMER:
            return self._abort_timed_out(now_ms)
        assert name == EXPIRY_TIMER, name
        return self._expire_ids(now_ms)

    def may_wait(self, name: tuple[str, ...]) -> bool:
        """Returns whether the timer may fire late without an effect on an ongoing transaction."""
        return name == EXPIRY_TIMER or not (self._ongoing or self._marked)

    def _abort_timed_out(self, now_ms: int) -> TransactionOutcome:
        new_states: list[Transaction] = []
        timed_out = [
            it
            for it in map(self.transactions.__getitem__, self._ongoing)
            if it.is_timed_out(now_ms)
        ]
        room = PARTITIONS_PER_SWEEP_MAX
        for transaction in timed_out:
            room -= len(transaction.partitions)
            if new_states and room < 0:
                break
            aborted = transaction.aborted_and_fenced(
                transaction_version=self.transaction_version, new_producer_id=None, now_ms=now_ms
            )
            new_states.append(aborted)
        is_all = len(new_states) == len(timed_out)
        interval_ms = self.settings.timeout_check_interval_ms
        return self._changed(
            (*new_states, *self._unwritten_completions(now_ms)),
            timer=SetTimer(TIMEOUT_TIMER, now_ms + (interval_ms if is_all else NEXT_SWEEP_MS)),
            reasons=tuple(
                f"transaction of {it.transactional_id} aborts: timeout of {it.timeout_ms} ms"
                for it in new_states
            ),
        )

    def _unwritten_completions(self, now_ms: int) -> list[Transaction]:
        """Returns complete states whose write failed (full disk, too few replicas)."""
        found = map(self._prepared_for, self._marked.values())
        return [it.completed(now_ms) for it in found if it is not None]

    def _expire_ids(self, now_ms: int) -> TransactionOutcome:
        latest_ms = now_ms - self.settings.id_expiration_ms
        silent = [
            it.transactional_id
            for it in self.transactions.values()
            if ANSWERS[it.state].may_expire and it.updated_ms <= latest_ms
        ]
        is_all = len(silent) <= TOMBSTONES_PER_SWEEP_MAX
        interval_ms = self.settings.expiry_check_interval_ms if is_all else NEXT_SWEEP_MS
        return TransactionOutcome(
            writes=tuple(tombstone_of(it) for it in silent[:TOMBSTONES_PER_SWEEP_MAX]),
            timers=(SetTimer(EXPIRY_TIMER, now_ms + interval_ms),),
        )

    def cancel_requests(self, tickets: Iterable[Ticket]) -> None:
        """Does nothing, because no request waits here."""

    # --- outcomes

    def _outcome(self, step: Step, ticket: Ticket) -> TransactionOutcome:
        reasons = () if step.reason is None else (step.reason,)
        return self._changed(step.new_states, reply=Reply(ticket, step.response), reasons=reasons)

    def _changed(
        self,
        new_states: tuple[Transaction, ...],
        *,
        reply: Reply | None = None,
        timer: SetTimer | None = None,
        reasons: tuple[str, ...] = (),
    ) -> TransactionOutcome:
        return TransactionOutcome(
            writes=tuple(write_of(it, self.transaction_version) for it in new_states),
            replies=() if reply is None else (reply,),
            timers=() if timer is None else (timer,),
            reasons=reasons,
            markers=tuple(self._markers_for(it) for it in new_states if has_markers(it)),
        )

    def _markers_for(self, prepared: Transaction) -> Markers:
        return Markers(
            transactional_id=prepared.transactional_id,
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            committed=prepared.state is TransactionState.PREPARE_COMMIT,
            transaction_version=prepared.client_version,
            partitions=tuple(sorted(prepared.partitions)),
        )


def has_markers(transaction: Transaction) -> bool:
    """Returns False for a transaction without partitions, which is complete in the same step."""
    return transaction.state in PREPARED and bool(transaction.partitions)


def loss_message(after: Transaction) -> str:
    match after.state:
        case TransactionState.PREPARE_COMMIT:
            event = "partitions lack its commit marker; it is written again"
        case TransactionState.PREPARE_ABORT:
            event = "its open transaction aborts"
        case _:
            event = "the next instance gets a later epoch"
    return (
        f"{after.transactional_id}: log records are missing (producer {after.producer_id}, epoch "
        f"{after.producer_epoch}); {event}"
    )
