"""The transactional ids of one partition of `__transaction_state`: each request finds its own here.

What an id answers in which state is told in `states`; how a producer takes over, how partitions
join, how a transaction ends, in the modules of these names. Every request is answered at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker.coordination.outcome import Reply, SetTimer
from pykbroker.coordination.transactions import ending, joining, listing, taking_over
from pykbroker.coordination.transactions.outcome import Markers, TransactionOutcome
from pykbroker.coordination.transactions.records import tombstone_of, transaction_of, write_of
from pykbroker.coordination.transactions.states import ANSWERS, PREPARED, TransactionState
from pykbroker.coordination.transactions.taking_over import Init, Recovery
from pykbroker_protocol.internal_topics.transactions import TransactionLogKey, TransactionLogValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykbroker.coordination.outcome import Ticket
    from pykbroker.coordination.transactions.after_loss import Seen
    from pykbroker.coordination.transactions.outcome import Place
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
"""The records of one sweep have to fit into one batch; what is left comes with the next."""
TOMBSTONES_PER_SWEEP_MAX = 1_000
NEXT_SWEEP_MS = 100
LOSSES_LOGGED_MAX = 5
"""Lines of each batch of transactional ids that are repaired after a power cut."""


class Transactions:
    """Decides what follows from requests and timers; only a replayed record changes it."""

    def __init__(
        self,
        settings: TransactionSettings,
        *,
        coordinator_epoch: int,
        transaction_version: int = 2,
    ) -> None:
        self.settings = settings
        self.coordinator_epoch = coordinator_epoch
        """The leader epoch of the partition: markers of a former coordinator are refused by it."""
        self.transaction_version = transaction_version
        """The cluster's feature level; whoever follows the cluster sets it anew."""
        self.transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        self._recoveries: dict[str, Recovery] = {}
        """Not in the log, as in Kafka: a repetition across a crash finds itself fenced."""
        self._marked: dict[str, Markers] = {}
        """All markers are written, and the record which says so is not yet replayed."""

    def wants_producer_id(self, transactional_id: str) -> bool:
        """Whether a new producer id should be at hand when its next request is decided."""
        transaction = self.transactions.get(transactional_id)
        return transaction is None or transaction.is_exhausted

    # --- what producers ask

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
        step = taking_over.init_producer_id(init, transaction, self.settings)
        if transaction is not None:
            self._remember_recovery(init, step)
        return self._outcome(step, ticket)

    def _remember_recovery(self, init: Init, step: Step) -> None:
        """It counts as long as the epoch it was given is the present one."""
        if init.producer is None or not step.becomes:
            return
        (given,) = step.becomes
        if given.state is TransactionState.EMPTY:
            self._recoveries[given.transactional_id] = Recovery(init.producer, given.owner)

    def add_partitions_to_txn(
        self, asked: AddPartitionsToTxnTransaction, *, version: int, ticket: Ticket, now_ms: int
    ) -> TransactionOutcome:
        """One transaction of a request, answered with its `AddPartitionsToTxnResult`.

        `joining` takes requests of all versions apart and puts responses together. Whether the
        partitions exist is asked before, of somebody who knows.
        """
        step = joining.add_partitions(
            asked,
            self.transactions.get(asked.transactional_id),
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
        offsets_partition: Place,
        now_ms: int,
    ) -> TransactionOutcome:
        step = joining.add_offsets(
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
        end = ending.End(
            request=request,
            version=version,
            new_producer_id=new_producer_id,
            transaction_version=self.transaction_version,
            now_ms=now_ms,
        )
        step = ending.end_txn(end, self.transactions.get(request.transactional_id))
        return self._outcome(step, ticket)

    # --- what the runtime reports

    def markers_written(self, markers: Markers, now_ms: int) -> TransactionOutcome:
        """Every partition has its marker, or is gone."""
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

    # --- what operators ask

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> list[describe_transactions.TransactionState]:
        return [listing.described(it, self.transactions.get(it)) for it in transactional_ids]

    # --- the log

    def replay(self, key: Message, value: Message | None) -> None:
        assert isinstance(key, TransactionLogKey), f"{type(key).__name__} is no transaction's"
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
        """What was decided and not finished is handed out again."""
        prepared = [it for it in self.transactions.values() if it.state in PREPARED]
        return TransactionOutcome(
            markers=tuple(self._markers_for(it) for it in prepared),
            timers=(
                SetTimer(TIMEOUT_TIMER, now_ms + self.settings.timeout_check_interval_ms),
                SetTimer(EXPIRY_TIMER, now_ms + self.settings.expiry_check_interval_ms),
            ),
        )

    def reconcile(
        self, transactional_ids: Iterable[str], seen: Callable[[int], Seen | None], now_ms: int
    ) -> TransactionOutcome:
        """Repairs ids of which a power cut took records; `seen` looks up a producer id."""
        from pykbroker.coordination.transactions.after_loss import (  # noqa: PLC0415 - rarely needed
            after_loss,
        )

        repaired: list[Transaction] = []
        for transactional_id in transactional_ids:
            before = self.transactions.get(transactional_id)
            found = None if before is None else seen(before.producer_id)
            if before is None or found is None:
                continue
            after = after_loss(
                before, found, transaction_version=self.transaction_version, now_ms=now_ms
            )
            if after is not None:
                repaired.append(after)
        reasons = [told_of_loss(it) for it in repaired[:LOSSES_LOGGED_MAX]]
        if len(repaired) > LOSSES_LOGGED_MAX:
            reasons.append(f"{len(repaired) - LOSSES_LOGGED_MAX} more transactional ids likewise")
        becomes = [
            step
            for it in repaired
            for step in (ending.with_completion(it, now_ms) if it.state in PREPARED else (it,))
        ]
        return replace(self._changed(tuple(becomes), reasons=tuple(reasons)), in_parts=True)

    # --- time

    def timer(self, name: tuple[str, ...], now_ms: int) -> TransactionOutcome:
        if name == TIMEOUT_TIMER:
            return self._abort_what_is_over_due(now_ms)
        assert name == EXPIRY_TIMER, name
        return self._forget_the_silent(now_ms)

    def may_wait(self, name: tuple[str, ...]) -> bool:
        """Whether nothing is lost if the timer fires late: no transaction is on its way."""
        return name == EXPIRY_TIMER or not (self._ongoing or self._marked)

    def _abort_what_is_over_due(self, now_ms: int) -> TransactionOutcome:
        becomes: list[Transaction] = []
        over_due = [
            it for it in map(self.transactions.__getitem__, self._ongoing) if it.is_over_due(now_ms)
        ]
        room = PARTITIONS_PER_SWEEP_MAX
        for transaction in over_due:
            room -= len(transaction.partitions)
            if becomes and room < 0:
                break
            aborted = transaction.taken_away(
                transaction_version=self.transaction_version, new_producer_id=None, now_ms=now_ms
            )
            becomes.append(aborted)
        is_all = len(becomes) == len(over_due)
        interval_ms = self.settings.timeout_check_interval_ms
        return self._changed(
            (*becomes, *self._completions_that_were_not_written(now_ms)),
            timer=SetTimer(TIMEOUT_TIMER, now_ms + (interval_ms if is_all else NEXT_SWEEP_MS)),
            reasons=tuple(
                f"transaction of {it.transactional_id} aborts: it took more than {it.timeout_ms} ms"
                for it in becomes
            ),
        )

    def _completions_that_were_not_written(self, now_ms: int) -> list[Transaction]:
        """A full disk or too few replicas have kept the coordinator from it."""
        found = map(self._prepared_for, self._marked.values())
        return [it.completed(now_ms) for it in found if it is not None]

    def _forget_the_silent(self, now_ms: int) -> TransactionOutcome:
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

    def forget_requests(self, tickets: Iterable[Ticket]) -> None:
        """A lost connection changes nothing: no request waits here for another."""

    # --- outcomes

    def _outcome(self, step: Step, ticket: Ticket) -> TransactionOutcome:
        reasons = () if step.reason is None else (step.reason,)
        return self._changed(step.becomes, reply=Reply(ticket, step.response), reasons=reasons)

    def _changed(
        self,
        becomes: tuple[Transaction, ...],
        *,
        reply: Reply | None = None,
        timer: SetTimer | None = None,
        reasons: tuple[str, ...] = (),
    ) -> TransactionOutcome:
        return TransactionOutcome(
            writes=tuple(write_of(it, self.transaction_version) for it in becomes),
            replies=() if reply is None else (reply,),
            timers=() if timer is None else (timer,),
            reasons=reasons,
            markers=tuple(self._markers_for(it) for it in becomes if has_markers(it)),
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
    """A transaction without a partition is complete in the same step."""
    return transaction.state in PREPARED and bool(transaction.partitions)


def told_of_loss(after: Transaction) -> str:
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
