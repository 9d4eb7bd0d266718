"""One partition of a coordinator's topic: the state it holds, and who waits for an answer.

A request is decided by the pure state. What it decides is appended as one batch and replayed;
the replies are released once the batch, and all before it, are committed. A crash between these
steps loses no more than the answer: the state is what the log says.
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

RECORDS_PER_BREATH = 200
"""Records replayed while loading, before other work has its turn: a few milliseconds."""
RETRY_MS = 1_000
"""So long after a failed write, whatever a timer has begun is tried again."""

NOT_LOADED = (
    "%s: coordinator cannot be loaded (%s); clients get NOT_COORDINATOR; repair the partition and "
    "restart the broker"
)
FRAME_BYTES_MAX = HEADER_BYTES + 32
"""What a batch and its last record need besides keys, values and the records before."""
COMMIT_SECONDS_MAX = 30.0
"""A coordinator's own writes wait this long for the in-sync replicas (offsets.commit.timeout)."""


class State(Protocol):
    """What the runtime asks of the pure core."""

    def replay(self, key: Message, value: Message | None) -> None: ...
    def loaded(self, now_ms: int) -> Outcome: ...
    def timer(self, name: Name, now_ms: int) -> Outcome: ...
    def may_wait(self, name: Name) -> bool: ...
    def cancel_requests(self, tickets: Iterable[Ticket]) -> None: ...


class Status(Enum):
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    """It could not be loaded: it needs an operator, or another leader."""
    GIVEN_UP = auto()


class Parked:
    """A request without an answer yet."""

    __slots__ = ("answer", "future", "refused")

    def __init__(self, refused: Refused) -> None:
        self.refused = refused
        self.answer: Message | None = None
        self.future: asyncio.Future[Message] | None = None


AnyState = TypeVar("AnyState", bound=State)


class CoordinatedLog(Generic[AnyState]):
    """The shell around the state of one partition; everything runs on the event loop."""

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
        """What else follows from an outcome, as soon as its records are committed."""
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
        """And the requests that wait for it."""
        self._tasks: set[asyncio.Task[None]] = set()

    # --- loading and letting go

    async def load(self) -> None:
        """Replay the partition from its start; requests are told to come back meanwhile."""
        started = self._clock.monotonic()
        replayed = 0
        try:
            async for batch in stored_batches(self.partition, self._clock):
                for _ in self._replay_batch(batch):
                    replayed += 1
                    if replayed % RECORDS_PER_BREATH == 0:
                        await asyncio.sleep(0)
            if self._before_begin is not None:
                await self._before_begin(self)
        except CorruptLog as damage:
            self.status = Status.FAILED
            logger.error(NOT_LOADED, self.partition, damage)  # noqa: TRY400 - no trace of a bug
            return
        except Exception:
            self.status = Status.FAILED
            logger.exception(NOT_LOADED, self.partition, "internal error")
            return
        if self.status is Status.GIVEN_UP:
            return
        self.begin()
        seconds = self._clock.monotonic() - started
        end_offset = self.partition.log.log_end_offset
        logger.info(
            "%s: coordinator loaded %d offsets in %.2f s", self.partition, end_offset, seconds
        )

    @property
    def still_leads(self) -> bool:
        """What another leader may have written in between would be missing here."""
        leadership = self.partition.leadership
        return self.partition.leads and leadership.leader_epoch == self.leader_epoch

    @property
    def is_empty(self) -> bool:
        return self.partition.log.log_end_offset == self.partition.log.log_start_offset

    def begin(self) -> None:
        """All that was written before is replayed: requests are served from here on."""
        self.status = Status.ACTIVE
        self._last_written = self.partition.log.log_end_offset - 1
        self._write_and_apply(self.state.loaded(self._clock.now_ms()))
        for decide in self._once_loaded:
            self._write_and_apply(decide())
        self._once_loaded.clear()

    def _replay_batch(self, batch: RecordBatch) -> Iterator[None]:
        """Yields after each record."""
        if not batch.is_control:
            for key, value in self._known_records(batch):
                self.state.replay(key, value)
                yield

    def _known_records(self, batch: RecordBatch) -> Iterator[tuple[Message, Message | None]]:
        return known_records(self.partition, self._record_types, batch)

    def give_up(self) -> None:
        """Another node coordinates from here on; who waits is told so."""
        self.status = Status.GIVEN_UP
        self._timers.cancel_all()
        for name in self._deferred:
            self._turns.cancel((self, name))
        for task in self._tasks:
            task.cancel()
        self._release_refused(list(self._parked), ErrorCode.NOT_COORDINATOR)

    # --- deciding

    def refusal(self) -> ErrorCode | None:
        """Why nothing can be decided here now."""
        match self.status:
            case Status.LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            case Status.ACTIVE:
                return None
            case Status.FAILED | Status.GIVEN_UP:
                return ErrorCode.NOT_COORDINATOR

    def decide(self, decision: Decision, refused: Refused) -> Message | asyncio.Future[Message]:
        """The answer to a request: at hand, or later."""
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
        """Something happened that nobody will tell again, a topic was deleted for instance."""
        if self.status is Status.LOADING:
            self._once_loaded.append(decide)
        else:
            self.carry_out(decide())

    def carry_out(self, outcome: Outcome) -> None:
        """Something other than a request was decided, that all markers are written for instance."""
        if self.status is Status.ACTIVE:
            self._write_and_apply(outcome)

    def repair(self, outcome: Outcome) -> bool:
        """Writes what was decided before `begin` or after it; False if the log takes no records."""
        if self.status in (Status.LOADING, Status.ACTIVE):
            return self._write_and_apply(outcome)
        return True

    def _when_answered(self, ticket: Ticket, future: asyncio.Future[Message]) -> None:
        if future.cancelled() and self._parked.pop(ticket, None) is not None:
            self.state.cancel_requests((ticket,))

    def _fire(self, name: Name) -> None:
        """What could not be written is decided again: nobody else would, with the timer gone."""
        now_ms = self._clock.now_ms()
        if not self._write_and_apply(self.state.timer(name, now_ms)):
            self._timers.set_if_missing(name, now_ms + RETRY_MS)

    # --- carrying out

    def _write_and_apply(self, outcome: Outcome) -> bool:
        """Whether what it writes was written; if not, the timers that it would end go on."""
        refusal = self._write(outcome)
        if refusal is not None:
            self._timers.apply(it for it in outcome.timers if isinstance(it, SetTimer))
            self._refuse((*tickets_of(outcome.replies), *outcome.deferred_tickets), refusal)
            self.state.cancel_requests(outcome.deferred_tickets)
            return False
        self._tell(outcome.reasons)
        self._timers.apply(outcome.timers)
        for name in outcome.deferred:
            self._defer(name, outcome.deferred_tickets)
        if self.partition.high_watermark > self._last_written:
            self._committed(outcome)
        elif outcome.replies or self._consequence is not None:
            self.begin_work(self._when_committed(outcome, self._last_written + 1))
        return True

    def _defer(self, name: Name, waits: Sequence[Ticket]) -> None:
        """What has arrived by now is served in this turn of the loop."""
        if name not in self._deferred:
            self._deferred[name] = []
            self._turns.wait((self, name), partial(self._run_deferred, name))
        self._deferred[name].extend(waits)

    def _run_deferred(self, name: Name) -> None:
        waiting = self._deferred.pop(name)
        try:
            self._fire(name)
        except Exception:
            logger.exception(
                "%s: internal error; waiting requests get COORDINATOR_NOT_AVAILABLE",
                self.partition,
            )
            self._release_refused(waiting, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self.state.cancel_requests(waiting)

    def begin_work(self, work: Coroutine[None, None, None]) -> None:
        """It ends at the latest when the partition is given up."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _committed(self, outcome: Outcome) -> None:
        for reply in outcome.replies:
            self._release(reply.ticket, reply.response)
        if self._consequence is not None:
            self._consequence(outcome)

    def _tell(self, reasons: Sequence[str]) -> None:
        for reason in reasons:
            logger.info("%s: %s", self.partition, reason)
            if self._observer is not None:
                self._observer(reason)

    def _write(self, outcome: Outcome) -> Refusal | None:
        """Each batch is replayed as soon as it is in the log, so that the state is what that says.

        Where a later one is refused, the decision is made again of what is left.
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
        """One batch, or as many as it takes where the writes may go in parts."""
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
        """What would be written for an outcome that goes as a whole."""
        ((builder, _),) = self._batches(outcome, now_ms)
        return builder.build()

    @property
    def commits_at_once(self) -> bool:
        """Whether records are committed as soon as they are written: no replica, no flush."""
        partition = self.partition
        return len(partition.leadership.replicas) == 1 and partition.never_waits_for_flushes

    def write_batch(
        self,
        batch: RecordBatch,
        writes: Iterable[Write],
        timers: Iterable[SetTimer | CancelTimer],
        now_ms: int,
    ) -> bool:
        """A batch that was made elsewhere, of these writes; False if it cannot be written."""
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

    def _replay_writes(self, outcome: Outcome, writes: Iterable[Write]) -> None:  # noqa: ARG002 - others look at it
        for write in writes:
            self.state.replay(write.key, write.value)

    def _new_batch(self, outcome: Outcome) -> BatchBuilder:  # noqa: ARG002 - others look at it
        return BatchBuilder()

    def _refusal_of(self, batch: RecordBatch) -> Refusal | None:  # noqa: ARG002 - likewise
        """Why the partition cannot take a batch at this moment."""
        return None

    def _refuse(self, tickets: Iterable[Ticket], refusal: Refusal) -> None:
        reason = refusal.code.name if refusal.message is None else refusal.message
        logger.warning("%s: coordinator append failed (%s)", self.partition, reason)
        self._release_refused(tickets, error_for_version(refusal.code))

    def _release_refused(self, tickets: Iterable[Ticket], code: ErrorCode) -> None:
        for ticket in tickets:
            parked = self._parked.get(ticket)
            if parked is not None:
                self._release(ticket, parked.refused(code))

    async def _when_committed(self, outcome: Outcome, end_offset: int) -> None:
        """Clients wait for a bounded time; the consequence waits until this node resigns."""
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


def error_for_version(code: ErrorCode) -> ErrorCode:
    """What a client is told of a coordinator's failed write: something that it tries again."""
    match code:
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case ErrorCode.INVALID_PRODUCER_EPOCH | ErrorCode.INVALID_TXN_STATE:
            return code  # the client's own fault, in a transaction
        case _:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
