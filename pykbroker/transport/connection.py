"""An accepted connection: moves bytes between its socket and its request stream."""

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
from pykbroker.transport.paused_peers import PausedPeers
from pykbroker.transport.peer_log import PeerLog
from pykbroker.transport.request_stream import RequestStream, ResponseSlot
from pykbroker_protocol.late_dataclass import dataclass, field

REQUESTS_PER_TURN_MAX: Final = 64
TURN_SECONDS_MAX: Final = 0.005
"""After this many requests of a connection, or this much time, other connections are served."""

FLUSH_BYTES: Final = 256 * 1024
"""Responses above this size are written before the next request is served."""


@dataclass(slots=True, kw_only=True)
class ServerContext:
    """Shared by all connections of a socket server."""

    serve: Serve
    loop: asyncio.AbstractEventLoop
    limits: ConnectionLimits
    log: PeerLog
    on_lost: "Callable[[Connection], None]"
    now_ms: Callable[[], float]
    paused_peers: PausedPeers
    work_clock: Callable[[], float]
    """Seconds; measures how long work on the event loop takes."""
    on_responded: Callable[[], None] | None = None
    scratch: Scratch = field(default_factory=Scratch)
    connections: "dict[Connection, None]" = field(default_factory=dict)  # oldest first
    # Event loops keep only weak references to tasks, and a stop waits for all of them.
    waits: set[asyncio.Future[Ready]] = field(default_factory=set)


class Connection(asyncio.BufferedProtocol):
    """Serves requests as they are read; only a request that must wait has a task.

    A blocked stream does not stop reading, so that a disconnect is noticed. Reading pauses when
    bytes have arrived that cannot be served yet. A connection therefore buffers at most one read
    or one frame. While reading is paused, `PausedPeers` detects a disconnect.
    """

    __slots__ = (
        "__weakref__",
        "_advance_is_scheduled",
        "_awaited",
        "_context",
        "_is_closing",
        "_reader",
        "_reading_is_paused",
        "_received_since_check",
        "_responses_have_ended",
        "_stream",
        "_transport",
        "_unsent_bytes_at_check",
        "_writelines_copies",
        "active_ms",
        "peer",
        "peer_has_closed",
    )

    def __init__(self, context: ServerContext, peer: Peer) -> None:
        self.peer = peer
        self.peer_has_closed = False  # it sends no more and may still read
        self.active_ms = context.now_ms()
        self._context = context
        self._stream = RequestStream(context.scratch, context.limits)
        self._reader = self._stream.reader
        self._transport: asyncio.Transport | None = None
        self._awaited: dict[ResponseSlot, tuple[asyncio.Future[Ready], Waiting]] | None = None
        self._is_closing = False
        self._responses_have_ended = False
        self._reading_is_paused = False
        self._advance_is_scheduled = False
        self._received_since_check = False
        self._unsent_bytes_at_check = 0
        self._writelines_copies = False

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._context.limits.unsent_bytes_max)
        # The transport of asyncio joins the buffers before Python 3.12, and until 3.12.8 it does
        # not pause the writer after writelines. uvloop has neither defect.
        self._writelines_copies = type(transport).__module__.startswith("asyncio.")
        self._context.connections[self] = None

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the reader knows the size
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._received_since_check = True
        self._stream.received(nbytes)
        self._advance()

    def eof_received(self) -> bool:
        """The peer sends no more; the connection closes after the remaining responses."""
        self.peer_has_closed = True
        self._end_responses()
        self._close_if_all_is_sent()
        return not self._is_closing

    def pause_writing(self) -> None:
        self._stream.peer_reads(reads=False)

    def resume_writing(self) -> None:
        self._stream.peer_reads(reads=True)
        self._advance_soon()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - any reason
        if self.peer.gone:
            return
        self._is_closing = True
        self._context.connections.pop(self, None)
        if self._reading_is_paused:
            self._context.paused_peers.remove(self)
        self._cancel_waits()
        self._transport = None
        self.peer.gone = True
        self._context.on_lost(self)

    # Called by the socket server

    @property
    def descriptor(self) -> int | None:
        """File descriptor of the socket; None in the simulation and once the connection closes."""
        if self._transport is None or self._is_closing:
            return None
        accepted = self._transport.get_extra_info("socket")
        return None if accepted is None else accepted.fileno()

    def is_idle(self, now_ms: float, idle_ms_max: int) -> bool:
        """Returns True after `idle_ms_max` without traffic; called periodically, not per request.

        As in Apache Kafka, a connection that waits for a response can be idle: `max_wait_ms` of a
        Fetch is unbounded, and a peer that has lost its network sends nothing.
        """
        unsent_bytes = self._transport.get_write_buffer_size() if self._transport else 0
        responses_move = unsent_bytes != self._unsent_bytes_at_check
        if self._received_since_check or responses_move:
            self.active_ms = now_ms
            self._received_since_check = False
            self._unsent_bytes_at_check = unsent_bytes
        return now_ms - self.active_ms > idle_ms_max

    def apply(self, limits: ConnectionLimits) -> None:
        self._stream.apply(limits)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=limits.unsent_bytes_max)
            self._advance_soon()

    def peer_closed(self, *, is_gone: bool) -> None:
        """The peer closed while reading was paused; if it is gone, it reads no more responses."""
        if is_gone:
            self.abort()
        else:
            self._end_responses()

    def close(self) -> None:
        """Serves no more requests; sends released responses, cancels waiting ones."""
        if self._is_closing:
            return
        self._is_closing = True
        self._cancel_waits()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes at once and discards unsent bytes."""
        self._is_closing = True
        self._cancel_waits()
        if self._transport is not None:
            self._transport.abort()

    # Serving

    def _advance(self) -> None:
        """Serves requests, sends released responses, and resumes reading if none is left."""
        if self._is_closing:
            return
        try:
            self._serve_some()
        except ProtocolViolation as violation:
            self._flush()
            self._close_for(violation)
        except Exception as error:  # noqa: BLE001 - a bug in a handler closes only this connection
            self._flush()
            self._fail(error)
        else:
            self._flush()
            self._pause_or_resume_reading()
            if self.peer_has_closed:
                self._close_if_all_is_sent()

    def _serve_some(self) -> None:
        stream, serve, peer = self._stream, self._context.serve, self.peer
        end_s = inf
        for served in range(REQUESTS_PER_TURN_MAX):
            if served == 1:  # most turns serve one request, without a clock
                end_s = self._context.work_clock() + TURN_SECONDS_MAX
            elif served and self._context.work_clock() > end_s:
                break
            frame = stream.next_request()
            if frame is None:
                return
            answer = serve(frame, peer)
            if isinstance(answer, Waiting):
                self._await(answer)
                continue
            stream.respond(answer)
            if stream.outgoing_bytes > FLUSH_BYTES:
                self._flush()
        self._advance_soon()

    def _flush(self) -> None:
        stream, transport = self._stream, self._transport
        if not stream.outgoing or transport is None:
            return
        is_small = stream.outgoing_bytes <= COPY_BYTES_MAX
        buffers = stream.take_outgoing()
        if self._responses_have_ended:
            return
        if is_small:
            transport.write(b"".join(buffers))
        elif self._writelines_copies:
            for piece in coalesce(buffers):
                transport.write(piece)
        else:
            transport.writelines(coalesce(buffers))
        if self._context.on_responded is not None:
            self._context.on_responded()

    def _pause_or_resume_reading(self) -> None:
        transport = self._transport
        if transport is None or self._is_closing or self.peer_has_closed:
            return
        if self._stream.has_backlog != self._reading_is_paused:
            self._reading_is_paused = not self._reading_is_paused
            if self._reading_is_paused:
                transport.pause_reading()
                self._context.paused_peers.add(self)
            else:
                self._context.paused_peers.remove(self)
                transport.resume_reading()

    def _advance_soon(self) -> None:
        if not self._advance_is_scheduled:
            self._advance_is_scheduled = True
            self._context.loop.call_soon(self._advance_as_scheduled)

    def _advance_as_scheduled(self) -> None:
        self._advance_is_scheduled = False
        self._advance()

    # Waiting requests

    def _await(self, waiting: Waiting) -> None:
        slot = self._stream.defer(pipelined=waiting.pipelined)
        wait = asyncio.ensure_future(waiting.awaitable, loop=self._context.loop)
        if self._awaited is None:
            self._awaited = {}
        self._awaited[slot] = wait, waiting
        self._context.waits.add(wait)
        wait.add_done_callback(partial(self._awaited_ended, slot))
        if self._responses_have_ended and waiting.answer_only:
            wait.cancel()

    def _awaited_ended(self, slot: ResponseSlot, wait: asyncio.Future[Ready]) -> None:
        self._context.waits.discard(wait)
        assert self._awaited is not None
        _, waiting = self._awaited.pop(slot)
        close_unawaited(waiting.awaitable)  # if it was cancelled before it started
        if wait.cancelled():
            if self._responses_have_ended:
                self._complete(slot, None)  # other requests are still served
            else:
                self.close()  # later responses would wait forever
            return
        error = wait.exception()
        if error is None:
            self._complete(slot, wait.result())
        elif isinstance(error, ProtocolViolation):
            self._close_for(error)
        else:
            self._fail(error)

    def _complete(self, slot: ResponseSlot, answer: Ready) -> None:
        self._stream.complete(slot, answer)
        # Responses that complete in one iteration of the event loop are sent together.
        if self._awaited:
            self._advance_soon()
        else:
            self._advance()

    def _end_responses(self) -> None:
        """Cancels waiting requests whose only effect is the response."""
        for wait, waiting in list((self._awaited or {}).values()):
            if waiting.answer_only:
                # The peer would take a later response for this one, so none is sent.
                self._responses_have_ended = True
                wait.cancel()

    def _cancel_waits(self) -> None:
        for wait, _ in list((self._awaited or {}).values()):
            wait.cancel()

    # Closing

    def _close_if_all_is_sent(self) -> None:
        stream = self._stream
        if not stream.has_backlog and not stream.open_slots:
            self.close()

    def _close_for(self, violation: ProtocolViolation) -> None:
        if not self._is_closing:
            text = "%s: connection closed (%s)"
            self._context.log.warning(text, self._described(), violation.reason)
            if violation.last_bytes and self._transport is not None:
                self._transport.write(violation.last_bytes)
        self.close()

    def _fail(self, error: BaseException) -> None:
        self._log_internal_error(error)
        self.close()

    def _log_internal_error(self, error: BaseException) -> None:
        self._context.log.internal_error(self._described(), error)

    def _described(self) -> str:
        # The client id comes from the peer: quoted and shortened.
        client_id = self.peer.client_id
        client = "client without id" if client_id is None else f"client {client_id[:100]!r}"
        return f"{client} at {self.peer} on listener {self.peer.listener}"
