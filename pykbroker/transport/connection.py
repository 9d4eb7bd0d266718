"""One accepted connection: moves bytes between its socket and its request stream."""

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Final, cast

from pykbroker.apis.answers import ProtocolViolation, Ready, Serve, Waiting, close_unawaited
from pykbroker.apis.peer import Peer
from pykbroker.framing.coalescing import COPY_BYTES_MAX, coalesce
from pykbroker.framing.frame_reader import Scratch
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.operator_log import OperatorLog
from pykbroker.transport.request_stream import RequestStream, Turn
from pykbroker.transport.unread_ends import UnreadEnds
from pykbroker_protocol.late_dataclass import dataclass, field

REQUESTS_PER_TURN_MAX: Final = 64
TURN_SECONDS_MAX: Final = 0.005
"""After so many requests of one connection, or so much time, the others get their turn."""

FLUSH_BYTES: Final = 256 * 1024
"""Answers gathered beyond this are written before the next request is served."""


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What all connections of one network edge share."""

    serve: Serve
    loop: asyncio.AbstractEventLoop
    limits: ConnectionLimits
    log: OperatorLog
    when_lost: "Callable[[Connection], None]"
    now_ms: Callable[[], float]
    unread_ends: UnreadEnds
    work_clock: Callable[[], float]
    """Seconds, for measuring how long work on the loop takes."""
    when_answered: Callable[[], None] | None = None
    scratch: Scratch = field(default_factory=Scratch)
    connections: "dict[Connection, None]" = field(default_factory=dict)  # as they came
    # The loops keep only weak references to tasks; and a stop waits until none is left.
    waits: set[asyncio.Future[Ready]] = field(default_factory=set)


class Connection(asyncio.BufferedProtocol):
    """Serves requests as they are read; a task exists only for an answer that has to wait.

    Reading goes on while the stream is held up, so that a peer which goes away is noticed; it
    pauses when bytes have come in that cannot be served yet. So at most one read, or one frame,
    is buffered for a connection. While reading is paused, `UnreadEnds` looks for the peer's end.
    """

    __slots__ = (
        "__weakref__",
        "_advance_is_scheduled",
        "_answers_have_ended",
        "_around",
        "_awaited",
        "_is_closing",
        "_reader",
        "_reading_is_paused",
        "_received_since_look",
        "_stream",
        "_transport",
        "_unsent_bytes_at_look",
        "_writelines_copies",
        "active_ms",
        "peer",
        "peer_has_ended",
    )

    def __init__(self, around: Surroundings, peer: Peer) -> None:
        self.peer = peer
        self.peer_has_ended = False  # it will send no more, and may still read
        self.active_ms = around.now_ms()
        self._around = around
        self._stream = RequestStream(around.scratch, around.limits)
        self._reader = self._stream.reader
        self._transport: asyncio.Transport | None = None
        self._awaited: dict[Turn, tuple[asyncio.Future[Ready], Waiting]] | None = None
        self._is_closing = False
        self._answers_have_ended = False
        self._reading_is_paused = False
        self._advance_is_scheduled = False
        self._received_since_look = False
        self._unsent_bytes_at_look = 0
        self._writelines_copies = False

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._around.limits.unsent_bytes_max)
        # asyncio's own transport joins the lines before Python 3.12, and up to 3.12.8 forgets
        # to pause the writer after writelines; uvloop does neither.
        self._writelines_copies = type(transport).__module__.startswith("asyncio.")
        self._around.connections[self] = None

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loops' guess; we know
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._received_since_look = True
        self._stream.received(nbytes)
        self._advance()

    def eof_received(self) -> bool:
        """The peer sends no more: what it asked for is still answered, then we close."""
        self.peer_has_ended = True
        self._end_answers()
        self._close_if_all_is_answered()
        return not self._is_closing

    def pause_writing(self) -> None:
        self._stream.peer_reads(reads=False)

    def resume_writing(self) -> None:
        self._stream.peer_reads(reads=True)
        self._advance_soon()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever it was
        if self.peer.gone:
            return
        self._is_closing = True
        self._around.connections.pop(self, None)
        if self._reading_is_paused:
            self._around.unread_ends.forget(self)
        self._cancel_waits()
        self._transport = None
        for callback in self.peer.leave():
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - others still want to hear of the loss
                self._log_bug(error)
        self._around.when_lost(self)

    # What the network edge calls

    @property
    def descriptor(self) -> int | None:
        """Of its socket; None where it has none, as in the simulation, or none for long."""
        if self._transport is None or self._is_closing:
            return None
        accepted = self._transport.get_extra_info("socket")
        return None if accepted is None else accepted.fileno()

    def is_idle(self, now_ms: float, idle_ms_max: int) -> bool:
        """Whether nothing has moved for too long. Called now and then, not on every request.

        As in Apache Kafka, a peer that waits for an answer is idle, too: `max_wait_ms` of a Fetch
        has no bound of its own, and a peer that has lost its network does not tell.
        """
        unsent_bytes = self._transport.get_write_buffer_size() if self._transport else 0
        answers_move = unsent_bytes != self._unsent_bytes_at_look
        if self._received_since_look or answers_move:
            self.active_ms = now_ms
            self._received_since_look = False
            self._unsent_bytes_at_look = unsent_bytes
        return now_ms - self.active_ms > idle_ms_max

    def apply(self, limits: ConnectionLimits) -> None:
        """From now on these limits hold."""
        self._stream.apply(limits)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=limits.unsent_bytes_max)
            self._advance_soon()

    def ended_unread(self, *, is_gone: bool) -> None:
        """The peer sends no more, though requests of it are still unread; a gone one reads none."""
        if is_gone:
            self.abort()
        else:
            self._end_answers()

    def close(self) -> None:
        """Serves nothing more; bytes already answered are sent, answers still due are not."""
        if self._is_closing:
            return
        self._is_closing = True
        self._cancel_waits()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes at once and drops what was not sent."""
        self._is_closing = True
        self._cancel_waits()
        if self._transport is not None:
            self._transport.abort()

    # Serving

    def _advance(self) -> None:
        """Serves what may be served, sends what may leave, reads on if all is handed out."""
        if self._is_closing:
            return
        try:
            self._serve_some()
        except ProtocolViolation as violation:
            self._flush()
            self._refuse(violation)
        except Exception as error:  # noqa: BLE001 - a bug in a handler costs its own connection
            self._flush()
            self._fail(error)
        else:
            self._flush()
            self._read_on()
            if self.peer_has_ended:
                self._close_if_all_is_answered()

    def _serve_some(self) -> None:
        stream, serve, peer = self._stream, self._around.serve, self.peer
        end_s = inf
        for served in range(REQUESTS_PER_TURN_MAX):
            if served == 1:  # most turns have one request, which need not be timed
                end_s = self._around.work_clock() + TURN_SECONDS_MAX
            elif served and self._around.work_clock() > end_s:
                break
            frame = stream.next_request()
            if frame is None:
                return
            answer = serve(frame, peer)
            if isinstance(answer, Waiting):
                self._await(answer)
                continue
            stream.answer(answer)
            if stream.outgoing_bytes > FLUSH_BYTES:
                self._flush()
        self._advance_soon()

    def _flush(self) -> None:
        stream, transport = self._stream, self._transport
        if not stream.outgoing or transport is None:
            return
        is_small = stream.outgoing_bytes <= COPY_BYTES_MAX
        buffers = stream.take_outgoing()
        if self._answers_have_ended:
            return
        if is_small:
            transport.write(b"".join(buffers))
        elif self._writelines_copies:
            for piece in coalesce(buffers):
                transport.write(piece)
        else:
            transport.writelines(coalesce(buffers))
        if self._around.when_answered is not None:
            self._around.when_answered()

    def _read_on(self) -> None:
        transport = self._transport
        if transport is None or self._is_closing or self.peer_has_ended:
            return
        if self._stream.has_backlog != self._reading_is_paused:
            self._reading_is_paused = not self._reading_is_paused
            if self._reading_is_paused:
                transport.pause_reading()
                self._around.unread_ends.watch(self)
            else:
                self._around.unread_ends.forget(self)
                transport.resume_reading()

    def _advance_soon(self) -> None:
        if not self._advance_is_scheduled:
            self._advance_is_scheduled = True
            self._around.loop.call_soon(self._advance_as_scheduled)

    def _advance_as_scheduled(self) -> None:
        self._advance_is_scheduled = False
        self._advance()

    # Waiting

    def _await(self, waiting: Waiting) -> None:
        turn = self._stream.wait(pipelined=waiting.pipelined)
        wait = asyncio.ensure_future(waiting.awaitable, loop=self._around.loop)
        if self._awaited is None:
            self._awaited = {}
        self._awaited[turn] = wait, waiting
        self._around.waits.add(wait)
        wait.add_done_callback(partial(self._awaited_ended, turn))
        if self._answers_have_ended and waiting.answer_only:
            wait.cancel()

    def _awaited_ended(self, turn: Turn, wait: asyncio.Future[Ready]) -> None:
        self._around.waits.discard(wait)
        assert self._awaited is not None
        _, waiting = self._awaited.pop(turn)
        close_unawaited(waiting.awaitable)  # cancelled before it began
        if wait.cancelled():
            if self._answers_have_ended:
                self._complete(turn, None)  # what else was asked for is still done
            else:
                self.close()  # an answer that never comes would hold up all later ones
            return
        error = wait.exception()
        if error is None:
            self._complete(turn, wait.result())
        elif isinstance(error, ProtocolViolation):
            self._refuse(error)
        else:
            self._fail(error)

    def _complete(self, turn: Turn, answer: Ready) -> None:
        self._stream.complete(turn, answer)
        # Several answers that come in one turn of the loop leave together.
        if self._awaited:
            self._advance_soon()
        else:
            self._advance()

    def _end_answers(self) -> None:
        """Cancels waits that only the peer needs, if there are any."""
        for wait, waiting in list((self._awaited or {}).values()):
            if waiting.answer_only:
                # A later answer must not be taken for this one, so none is sent any more.
                self._answers_have_ended = True
                wait.cancel()

    def _cancel_waits(self) -> None:
        for wait, _ in list((self._awaited or {}).values()):
            wait.cancel()

    # Ending

    def _close_if_all_is_answered(self) -> None:
        stream = self._stream
        if not stream.has_backlog and not stream.open_turns:
            self.close()

    def _refuse(self, violation: ProtocolViolation) -> None:
        if not self._is_closing:
            line = f"closing the connection of {self._described()}: {violation.reason}"
            self._around.log.peer_trouble(line, self._around.now_ms())
            if violation.last_bytes and self._transport is not None:
                self._transport.write(violation.last_bytes)
        self.close()

    def _fail(self, error: BaseException) -> None:
        self._log_bug(error)
        self.close()

    def _log_bug(self, error: BaseException) -> None:
        line = f"a fault of the broker ends the connection of {self._described()}"
        self._around.log.bug(line, error, self._around.now_ms())

    def _described(self) -> str:
        # The client id is the peer's own text: quoted, and no longer than a line.
        client_id = self.peer.client_id
        client = "an unnamed client" if client_id is None else f"client {client_id[:100]!r}"
        return f"{client} at {self.peer} on listener {self.peer.listener}"
