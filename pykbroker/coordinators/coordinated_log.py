"""One partition of a coordinator's topic: the state it holds, and who waits for an answer.

A request is decided by the pure state. What it decides is appended as one batch and replayed;
the replies are released once the batch, and all before it, are committed. A crash between these
steps loses no more than the answer: the state is what the log says.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum, auto
from itertools import count
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pykbroker.coordinators.records import UnknownRecord, decode_record, encode_write
from pykbroker.coordinators.timers import Name, Timers
from pykbroker.partitions.waiting import until_committed
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from pykbroker_protocol.records.builder import BatchBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pykbroker.clock import Clock
    from pykbroker.coordination.outcome import Outcome, Reply, Ticket, Write
    from pykbroker.coordinators.records import RecordType
    from pykbroker.partitions.partition import Partition, Written
    from pykbroker_protocol.message import Message

    Decision = Callable[[Ticket], Outcome]
    Refused = Callable[[ErrorCode], Message]

logger = logging.getLogger(__name__)

LOAD_BYTES_PER_BREATH = 128 * 1024
"""About 20 ms of replay; requests of others are served in between."""
COMMIT_SECONDS_MAX = 30.0
"""A coordinator's own writes wait this long for the in-sync replicas (offsets.commit.timeout)."""


class State(Protocol):
    """What the runtime asks of the pure core."""

    def replay(self, key: Message, value: Message | None) -> None: ...
    def loaded(self, now_ms: int) -> Outcome: ...
    def timer(self, name: Name, now_ms: int) -> Outcome: ...
    def forget_requests(self, tickets: Iterable[Ticket]) -> None: ...


class Status(Enum):
    LOADING = auto()
    ACTIVE = auto()
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
    ) -> None:
        self.partition = partition
        self.state = state
        self.status = Status.LOADING
        self._record_types = record_types
        self._clock = clock
        self._timers = Timers(clock, self._fire)
        self._tickets = count(1)
        self._parked: dict[Ticket, Parked] = {}
        self._last_written = -1
        self._tasks: set[asyncio.Task[None]] = set()

    # --- loading and letting go

    async def load(self) -> None:
        """Replay the partition from its start; requests are told to come back meanwhile."""
        log = self.partition.log
        offset, started = log.log_start_offset, self._clock.monotonic()
        while offset < log.log_end_offset:
            found = log.read(offset, bytes_max=LOAD_BYTES_PER_BREATH, end_offset=log.log_end_offset)
            if found is None:
                break
            for batch in iterate_batches(found.view):
                self._replay_batch(batch)
                offset = batch.next_offset
            await asyncio.sleep(0)
        self.begin()
        seconds = self._clock.monotonic() - started
        logger.info("%s: coordinator loaded %d offsets in %.2f s", self.partition, offset, seconds)

    @property
    def is_empty(self) -> bool:
        return self.partition.log.log_end_offset == self.partition.log.log_start_offset

    def begin(self) -> None:
        """All that was written before is replayed: requests are served from here on."""
        self.status = Status.ACTIVE
        self._carry_out(self.state.loaded(self._clock.now_ms()))

    def _replay_batch(self, batch: RecordBatch) -> None:
        if batch.is_control:
            return
        for record in batch.records():
            if record.key is None:
                continue
            try:
                key, value = decode_record(self._record_types, record.key, record.value)
            except UnknownRecord as unknown:
                logger.warning(
                    "%s: record at offset %d is passed over: %s",
                    self.partition,
                    record.offset,
                    unknown,
                )
                continue
            self.state.replay(key, value)

    def give_up(self) -> None:
        """Another node coordinates from here on; who waits is told so."""
        self.status = Status.GIVEN_UP
        self._timers.cancel_all()
        for task in self._tasks:
            task.cancel()
        for ticket, parked in list(self._parked.items()):
            self._release(ticket, parked.refused(ErrorCode.NOT_COORDINATOR))

    # --- deciding

    def refusal(self) -> ErrorCode | None:
        """Why nothing can be decided here now."""
        match self.status:
            case Status.LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            case Status.ACTIVE:
                return None
            case Status.GIVEN_UP:
                return ErrorCode.NOT_COORDINATOR

    def decide(self, decision: Decision, refused: Refused) -> Message | asyncio.Future[Message]:
        """The answer to a request: at hand, or later."""
        code = self.refusal()
        if code is not None:
            return refused(code)
        ticket = next(self._tickets)
        parked = self._parked[ticket] = Parked(refused)
        self._carry_out(decision(ticket))
        if parked.answer is not None:
            return parked.answer
        parked.future = asyncio.get_running_loop().create_future()
        parked.future.add_done_callback(lambda it: self._when_answered(ticket, it))
        return parked.future

    def carry_out(self, outcome: Outcome) -> None:
        """Something other than a request was decided, a deleted topic for instance."""
        if self.status is Status.ACTIVE:
            self._carry_out(outcome)

    def _when_answered(self, ticket: Ticket, future: asyncio.Future[Message]) -> None:
        if future.cancelled() and self._parked.pop(ticket, None) is not None:
            self.state.forget_requests((ticket,))

    def _fire(self, name: Name) -> None:
        self._carry_out(self.state.timer(name, self._clock.now_ms()))

    # --- carrying out

    def _carry_out(self, outcome: Outcome) -> None:
        for reason in outcome.reasons:
            logger.info("%s: %s", self.partition, reason)
        self._timers.apply(outcome.timers)
        if outcome.writes:
            written = self._append(outcome.writes)
            if isinstance(written, Refusal):
                self._refuse(outcome.replies, written)
                return
            self._last_written = written.last_offset
            for write in outcome.writes:
                self.state.replay(write.key, write.value)
        if not outcome.replies:
            return
        if self.partition.high_watermark > self._last_written:
            self._release_all(outcome.replies)
            return
        waiting = asyncio.create_task(self._release_when_committed(outcome.replies))
        self._tasks.add(waiting)
        waiting.add_done_callback(self._tasks.discard)

    def _append(self, writes: Sequence[Write]) -> Written | Refusal:
        now_ms = self._clock.now_ms()
        builder = BatchBuilder()
        for write in writes:
            key, value = encode_write(write)
            builder.append(timestamp=now_ms, key=key, value=value)
        batch = RecordBatch.parse(memoryview(bytearray(builder.build())))
        return self.partition.write(batch, now_ms)

    def _refuse(self, replies: Sequence[Reply], refusal: Refusal) -> None:
        logger.warning("%s: coordinator cannot write: %s", self.partition, refusal.code.name)
        for reply in replies:
            parked = self._parked.get(reply.ticket)
            if parked is not None:
                self._release(reply.ticket, parked.refused(told_as(refusal.code)))

    async def _release_when_committed(self, replies: Sequence[Reply]) -> None:
        target = self._last_written + 1
        if await until_committed(self.partition, target, COMMIT_SECONDS_MAX):
            self._release_all(replies)
        else:
            self._refuse(replies, Refusal(ErrorCode.REQUEST_TIMED_OUT))

    def _release_all(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            self._release(reply.ticket, reply.response)

    def _release(self, ticket: Ticket, answer: Message) -> None:
        parked = self._parked.pop(ticket, None)
        if parked is None:
            return
        if parked.future is None:
            parked.answer = answer
        elif not parked.future.done():
            parked.future.set_result(answer)


def told_as(code: ErrorCode) -> ErrorCode:
    """What a client is told of a coordinator's failed write: something that it tries again."""
    match code:
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
