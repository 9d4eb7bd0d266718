"""The runtime of a coordinator on one partition: its state, its log and its pending requests.

The pure state decides a request. The records of the decision are appended as one batch and
replayed; the responses are sent once that batch and all before it are committed. A crash between
these steps loses only the response, because the state is rebuilt from the log.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum, auto
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pykbroker.coordination.outcome import SetTimer
from pykbroker.coordinators.records import encode_write
from pykbroker.coordinators.state_loader import known_records, stored_batches
from pykbroker.coordinators.timers import Name, Timers
from pykbroker.coordinators.turns import Turns
from pykbroker.partitions.waiting import wait_for_commit
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import HEADER_BYTES, RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_storage.batch_scan import CorruptLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence

    from pykbroker.clock import Clock
    from pykbroker.coordination.outcome import CancelTimer, Outcome, Reply, Ticket, Write
    from pykbroker.coordinators.records import RecordType
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.message import Message

    Decision = Callable[[Ticket], Outcome]
    Refused = Callable[[ErrorCode], Message]
    DecisionObserver = Callable[[str], None]
    Preparation = Callable[["CoordinatedLog[AnyState]"], Awaitable[None]]
    Consequence = Callable[[Outcome], None]

logger = logging.getLogger(__name__)

RECORDS_PER_SLICE = 200
"""Records replayed while loading before other work runs: a few milliseconds."""
RETRY_MS = 1_000
"""Delay until a timer fires again after its write failed."""

NOT_LOADED = (
    "%s: coordinator cannot be loaded (%s); clients get NOT_COORDINATOR; repair the partition and "
    "restart the broker"
)
FRAME_BYTES_MAX = HEADER_BYTES + 32
"""Upper bound of the batch header plus the framing of one record, without key and value."""
COMMIT_SECONDS_MAX = 30.0
"""Limit of the wait for in-sync replicas; `offsets.commit.timeout.ms` has no effect."""


class State(Protocol):
    """The pure state, as the runtime uses it."""

    def replay(self, key: Message, value: Message | None) -> None: ...
    def loaded(self, now_ms: int) -> Outcome: ...
    def timer(self, name: Name, now_ms: int) -> Outcome: ...
    def may_wait(self, name: Name) -> bool: ...
    def cancel_requests(self, tickets: Iterable[Ticket]) -> None: ...


class Status(Enum):
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    """Loading failed: an operator must act, or another broker must lead."""
    RESIGNED = auto()


class Parked:
    """A request without a response yet."""

    __slots__ = ("answer", "future", "refused")

    def __init__(self, refused: Refused) -> None:
        self.refused = refused
        self.answer: Message | None = None
        self.future: asyncio.Future[Message] | None = None


AnyState = TypeVar("AnyState", bound=State)


class CoordinatedLog(Generic[AnyState]):
    """Connects the state of one partition with its log. All methods run on the event loop."""

    def __init__(
        self,
        partition: Partition,
        state: AnyState,
        record_types: dict[int, RecordType],
        clock: Clock,
        *,
        consequence: Consequence | None = None,
        turns: Turns | None = None,
        observer: DecisionObserver | None = None,
        before_begin: Preparation[AnyState] | None = None,
    ) -> None:
        """`before_begin` repairs the loaded state before any request is decided."""
        self.partition = partition
        self.leader_epoch = partition.leadership.leader_epoch
        self.state = state
        self.status = Status.LOADING
        self._record_types = record_types
        self._clock = clock
        self._consequence = consequence
        """Called with an outcome once its records are committed."""
        self._observer = observer
        """Receives the reasons that are logged."""
        self._before_begin = before_begin
        self._timers = Timers(clock, self._fire, state.may_wait)
        self._tickets = count(1)
        self._parked: dict[Ticket, Parked] = {}
        self._last_written = -1
        self._once_loaded: list[Callable[[], Outcome]] = []
        self._turns = Turns() if turns is None else turns
        self._deferred: dict[Name, list[Ticket]] = {}
        """Deferred decisions, and the requests that wait for them."""
        self._tasks: set[asyncio.Task[None]] = set()

    # --- loading and resigning

    async def load(self) -> None:
        """Loads the state. Requests get COORDINATOR_LOAD_IN_PROGRESS meanwhile."""
        started = self._clock.monotonic()
        replayed = 0
        try:
            async for batch in stored_batches(self.partition, self._clock):
                for _ in self._replay_batch(batch):
                    replayed += 1
                    if replayed % RECORDS_PER_SLICE == 0:
                        await asyncio.sleep(0)
            if self._before_begin is not None:
                await self._before_begin(self)
        except CorruptLog as damage:
            self.status = Status.FAILED
            logger.error(NOT_LOADED, self.partition, damage)  # noqa: TRY400 - not a bug, so no traceback
            return
        except Exception:
            self.status = Status.FAILED
            logger.exception(NOT_LOADED, self.partition, "internal error")
            return
        if self.status is Status.RESIGNED:
            return
        self.begin()
        seconds = self._clock.monotonic() - started
        end_offset = self.partition.log.log_end_offset
        logger.info(
            "%s: coordinator loaded up to offset %d in %.2f s", self.partition, end_offset, seconds
        )

    @property
    def still_leads(self) -> bool:
        """False after a change of the leader epoch: the state lacks records of other leaders."""
        leadership = self.partition.leadership
        return self.partition.leads and leadership.leader_epoch == self.leader_epoch

    @property
    def is_empty(self) -> bool:
        return self.partition.log.log_end_offset == self.partition.log.log_start_offset

    def begin(self) -> None:
        """Starts serving requests after the whole log is replayed."""
        self.status = Status.ACTIVE
        self._last_written = self.partition.log.log_end_offset - 1
        self._write_and_apply(self.state.loaded(self._clock.now_ms()))
        for decide in self._once_loaded:
            self._write_and_apply(decide())
        self._once_loaded.clear()

    def _replay_batch(self, batch: RecordBatch) -> Iterator[None]:
        """Replays the records of a batch; yields after each, so that the caller can pause."""
        if not batch.is_control:
            for key, value in self._known_records(batch):
                self.state.replay(key, value)
                yield

    def _known_records(self, batch: RecordBatch) -> Iterator[tuple[Message, Message | None]]:
        return known_records(self.partition, self._record_types, batch)

    def resign(self) -> None:
        """Resigns as coordinator and completes waiting requests with NOT_COORDINATOR."""
        self.status = Status.RESIGNED
        self._timers.cancel_all()
        for name in self._deferred:
            self._turns.cancel((self, name))
        for task in self._tasks:
            task.cancel()
        self._release_refused(list(self._parked), ErrorCode.NOT_COORDINATOR)

    # --- deciding

    def refusal(self) -> ErrorCode | None:
        """Returns the error of requests that arrive now, or None."""
        match self.status:
            case Status.LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            case Status.ACTIVE:
                return None
            case Status.FAILED | Status.RESIGNED:
                return ErrorCode.NOT_COORDINATOR

    def decide(self, decision: Decision, refused: Refused) -> Message | asyncio.Future[Message]:
        """Returns the response to a request, or a future of it."""
        code = self.refusal()
        if code is not None:
            return refused(code)
        ticket = next(self._tickets)
        parked = self._parked[ticket] = Parked(refused)
        self._write_and_apply(decision(ticket))
        if parked.answer is not None:
            return parked.answer
        parked.future = asyncio.get_running_loop().create_future()
        parked.future.add_done_callback(lambda it: self._when_answered(ticket, it))
        return parked.future

    def decide_once_loaded(self, decide: Callable[[], Outcome]) -> None:
        """Decides about a one-time event (a deleted topic) now, or once the state is loaded."""
        if self.status is Status.LOADING:
            self._once_loaded.append(decide)
        else:
            self.write_if_active(decide())

    def write_if_active(self, outcome: Outcome) -> None:
        """Writes and applies an outcome without a request, for example of a transaction marker."""
        if self.status is Status.ACTIVE:
            self._write_and_apply(outcome)

    def repair(self, outcome: Outcome) -> bool:
        """Writes and applies a repair, also while loading; False if the append failed."""
        if self.status in (Status.LOADING, Status.ACTIVE):
            return self._write_and_apply(outcome)
        return True

    def _when_answered(self, ticket: Ticket, future: asyncio.Future[Message]) -> None:
        if future.cancelled() and self._parked.pop(ticket, None) is not None:
            self.state.cancel_requests((ticket,))

    def _fire(self, name: Name) -> None:
        """Runs a timer; sets it again after a failed write, because nothing else repeats it."""
        now_ms = self._clock.now_ms()
        if not self._write_and_apply(self.state.timer(name, now_ms)):
            self._timers.set_if_missing(name, now_ms + RETRY_MS)

    # --- writing and applying

    def _write_and_apply(self, outcome: Outcome) -> bool:
        """Returns False if the append failed; the timers that the outcome cancels then continue."""
        refusal = self._write(outcome)
        if refusal is not None:
            self._timers.apply(it for it in outcome.timers if isinstance(it, SetTimer))
            self._refuse((*tickets_of(outcome.replies), *outcome.deferred_tickets), refusal)
            self.state.cancel_requests(outcome.deferred_tickets)
            return False
        self._log_reasons(outcome.reasons)
        self._timers.apply(outcome.timers)
        for name in outcome.deferred:
            self._defer(name, outcome.deferred_tickets)
        if self.partition.high_watermark > self._last_written:
            self._committed(outcome)
        elif outcome.replies or self._consequence is not None:
            self.begin_work(self._when_committed(outcome, self._last_written + 1))
        return True

    def _defer(self, name: Name, waiting: Sequence[Ticket]) -> None:
        """Runs a decision once for all requests that arrive in this iteration of the event loop."""
        if name not in self._deferred:
            self._deferred[name] = []
            self._turns.wait((self, name), partial(self._run_deferred, name))
        self._deferred[name].extend(waiting)

    def _run_deferred(self, name: Name) -> None:
        waiting = self._deferred.pop(name)
        try:
            self._fire(name)
        except Exception:
            logger.exception(
                "%s: internal error; waiting requests get COORDINATOR_NOT_AVAILABLE and clients "
                "retry",
                self.partition,
            )
            self._release_refused(waiting, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self.state.cancel_requests(waiting)

    def begin_work(self, work: Coroutine[None, None, None]) -> None:
        """Runs work in a task that is cancelled when this broker resigns."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _committed(self, outcome: Outcome) -> None:
        for reply in outcome.replies:
            self._release(reply.ticket, reply.response)
        if self._consequence is not None:
            self._consequence(outcome)

    def _log_reasons(self, reasons: Sequence[str]) -> None:
        for reason in reasons:
            logger.info("%s: %s", self.partition, reason)
            if self._observer is not None:
                self._observer(reason)

    def _write(self, outcome: Outcome) -> Refusal | None:
        """Appends the batches of an outcome and replays each one at once.

        If a later batch is refused, the state contains the earlier ones; a retry decides the rest.
        """
        now_ms = self._clock.now_ms()
        for builder, writes in self._batches(outcome, now_ms):
            batch = RecordBatch.parse(memoryview(bytearray(builder.build())))
            written = self._refusal_of(batch) or self.partition.leader.write(batch, now_ms)
            if isinstance(written, Refusal):
                return written
            self._last_written = written.last_offset
            self._replay_writes(outcome, writes)
        return None

    def _batches(
        self, outcome: Outcome, now_ms: int
    ) -> Iterator[tuple[BatchBuilder, Sequence[Write]]]:
        """One batch; several for an outcome that may be split and is too large for one."""
        builder, first = self._new_batch(outcome), 0
        for index, write in enumerate(outcome.writes):
            key, value = encode_write(write)
            if outcome.in_parts and index > first and not self._has_room(builder, key, value):
                yield builder, outcome.writes[first:index]
                builder, first = self._new_batch(outcome), index
            builder.append(timestamp=now_ms, key=key, value=value)
        if outcome.writes:
            yield builder, outcome.writes[first:]

    def batch_of(self, outcome: Outcome, now_ms: int) -> bytes:
        """Returns the batch of an outcome that is not split."""
        ((builder, _),) = self._batches(outcome, now_ms)
        return builder.build()

    @property
    def commits_at_once(self) -> bool:
        """True if appends commit at once, without followers and without a flush."""
        partition = self.partition
        return len(partition.leadership.replicas) == 1 and partition.never_waits_for_flushes

    def write_batch(
        self,
        batch: RecordBatch,
        writes: Iterable[Write],
        timers: Iterable[SetTimer | CancelTimer],
        now_ms: int,
    ) -> bool:
        """Appends a batch that the fast path built from these writes; False if that failed."""
        written = self.partition.leader.write(batch, now_ms)
        if isinstance(written, Refusal):
            return False
        self._last_written = written.last_offset
        for key, value, _ in writes:
            self.state.replay(key, value)
        self._timers.apply(timers)
        return True

    def _has_room(self, builder: BatchBuilder, key: bytes, value: bytes | None) -> bool:
        settings = self.partition.settings
        size_bytes = builder.payload_bytes + len(key) + len(value or b"") + FRAME_BYTES_MAX
        return size_bytes <= min(settings.max_message_bytes, settings.segment_bytes)

    def _replay_writes(self, outcome: Outcome, writes: Iterable[Write]) -> None:  # noqa: ARG002 - for subclasses
        for write in writes:
            self.state.replay(write.key, write.value)

    def _new_batch(self, outcome: Outcome) -> BatchBuilder:  # noqa: ARG002 - for subclasses
        return BatchBuilder()

    def _refusal_of(self, batch: RecordBatch) -> Refusal | None:  # noqa: ARG002 - likewise
        """Returns a refusal if the partition cannot append the batch now."""
        return None

    def _refuse(self, tickets: Iterable[Ticket], refusal: Refusal) -> None:
        reason = refusal.code.name if refusal.message is None else refusal.message
        code = error_of_failed_append(refusal.code)
        logger.warning(
            "%s: coordinator append failed (%s); waiting requests get %s",
            self.partition,
            reason,
            code.name,
        )
        self._release_refused(tickets, code)

    def _release_refused(self, tickets: Iterable[Ticket], code: ErrorCode) -> None:
        for ticket in tickets:
            parked = self._parked.get(ticket)
            if parked is not None:
                self._release(ticket, parked.refused(code))

    async def _when_committed(self, outcome: Outcome, end_offset: int) -> None:
        """Requests time out; the consequence waits for the commit until this node resigns."""
        code = ErrorCode.KAFKA_STORAGE_ERROR
        if await self.partition.flushing.until_settled(end_offset):
            code = await self._wait_for_commit(end_offset)
        if code is ErrorCode.NONE:
            self._committed(outcome)
            return
        self._refuse(tickets_of(outcome.replies), Refusal(code))
        while (code := await self._wait_for_commit(end_offset)) is ErrorCode.REQUEST_TIMED_OUT:
            pass
        if code is ErrorCode.NONE and self._consequence is not None:
            self._consequence(outcome)

    async def _wait_for_commit(self, end_offset: int) -> ErrorCode:
        return await wait_for_commit(
            self.partition, end_offset, COMMIT_SECONDS_MAX, clock=self._clock
        )

    def _release(self, ticket: Ticket, answer: Message) -> None:
        parked = self._parked.pop(ticket, None)
        if parked is None:
            return
        if parked.future is None:
            parked.answer = answer
        elif not parked.future.done():
            parked.future.set_result(answer)


def tickets_of(replies: Iterable[Reply]) -> Iterator[Ticket]:
    return (reply.ticket for reply in replies)


def error_of_failed_append(code: ErrorCode) -> ErrorCode:
    """Returns the error that a client gets for a failed append of the coordinator; most retry."""
    match code:
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case ErrorCode.INVALID_PRODUCER_EPOCH | ErrorCode.INVALID_TXN_STATE:
            return code  # an error of the client, in a transaction
        case _:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
