"""Runs transactions with a clock, a log of encoded records and pending markers in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.outcome import SetTimer
from pykbroker.coordination.transactions.registry import Transactions
from pykbroker.coordinators.records import decode_record, encode_write, record_types
from pykbroker_protocol.internal_topics import transactions as records

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.coordination.outcome import Reply, Ticket, Write
    from pykbroker.coordination.transactions.outcome import Markers, TransactionOutcome
    from pykbroker.coordination.transactions.settings import TransactionSettings

START_MS = 1_000_000_000
RECORDS = record_types(records)


class World:
    """Applies outcomes like the runtime: append, replay, set timers, reply, write markers."""

    def __init__(self, settings: TransactionSettings, *, transaction_version: int = 2) -> None:
        self.settings = settings
        self.transaction_version = transaction_version
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[tuple[str, ...], int] = {}
        self.waiting: set[Ticket] = set()
        self.replies: list[Reply] = []
        self.happened: list[Write | Markers] = []
        """Writes to the log and to data partitions, in order."""
        self.reasons: list[str] = []
        self.markers: list[Markers] = []
        """Marker work that is not finished."""
        self.markers_are_held_back = False
        self.disk_is_full = False
        self.epoch = 0
        self._tickets = 0
        self._producer_ids = 0
        self.transactions = self.empty()
        self.carry_out(self.transactions.loaded(self.now_ms))

    def empty(self) -> Transactions:
        return Transactions(
            self.settings,
            coordinator_epoch=self.epoch,
            transaction_version=self.transaction_version,
        )

    def ask(self, decide: Callable[[Ticket], TransactionOutcome]) -> Ticket:
        self._tickets += 1
        self.waiting.add(self._tickets)
        self.carry_out(decide(self._tickets))
        return self._tickets

    def new_producer_id(self, transactional_id: str) -> int | None:
        """Allocates a producer id only when it is needed, like the runtime."""
        if not self.transactions.needs_producer_id(transactional_id):
            return None
        self._producer_ids += 1
        return self._producer_ids

    def carry_out(self, outcome: TransactionOutcome) -> None:
        for timer in outcome.timers:
            assert isinstance(timer, SetTimer)
            self.timers[timer.name] = timer.at_ms
        for reply in outcome.replies:
            self.waiting.remove(reply.ticket)  # fails if a request gets two responses
        self.reasons += outcome.reasons
        if outcome.writes and self.disk_is_full:
            return  # the runtime sends an error and drops the markers
        for write in outcome.writes:
            self.log.append(encode_write(write))
            self.transactions.replay(*decode_record(RECORDS, *self.log[-1]))
        self.replies += outcome.replies
        self.happened += outcome.writes
        self.markers += outcome.markers
        if not self.markers_are_held_back:
            self.write_markers()

    def write_markers(self) -> None:
        while self.markers:
            self.write_marker(self.markers[0])

    def write_marker(self, work: Markers) -> None:
        self.markers.remove(work)
        self.happened.append(work)
        self.carry_out(self.transactions.markers_written(work, self.now_ms))

    def pass_time(self, ms: int) -> None:
        """Fires due timers in order."""
        end_ms = self.now_ms + ms
        while due := [(at, name) for name, at in self.timers.items() if at <= end_ms]:
            at_ms, name = min(due)
            self.now_ms = max(self.now_ms, at_ms)
            del self.timers[name]
            self.carry_out(self.transactions.timer(name, self.now_ms))
        self.now_ms = end_ms

    def restart(self) -> None:
        """Crashes the coordinator; only its log remains."""
        self.waiting.clear()
        self.timers.clear()
        self.markers.clear()
        self.epoch += 1
        self.transactions = self.replayed()
        self.carry_out(self.transactions.loaded(self.now_ms))

    def replayed(self) -> Transactions:
        transactions = self.empty()
        for key, value in self.log:
            transactions.replay(*decode_record(RECORDS, key, value))
        return transactions
