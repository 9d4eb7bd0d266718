"""The requests of one connection without its socket: bytes in, requests out, responses in order.

Requests can complete in any order; a response is released when all earlier requests have theirs. A
request without response (acks=0) releases no bytes. The stream *blocks* (hands out no request)
while it is:

- muted: a request must be answered before the next one is served,
- full: too many requests are open, or too many response bytes wait for an earlier response,
- unread: the peer does not read its responses (reported by the connection).
"""

from pykbroker.apis.answers import Buffer, ProtocolViolation, Ready
from pykbroker.framing.frame_reader import SIZE, FrameReader, Scratch
from pykbroker.transport.limits import ConnectionLimits


class ResponseSlot:
    """Place of a request in the order of responses, until its response is released."""

    __slots__ = ("is_complete", "mutes", "response", "response_bytes")

    def __init__(self, *, mutes: bool) -> None:
        self.mutes = mutes
        self.is_complete = False
        self.response: Ready = None
        self.response_bytes = 0


class RequestStream:
    """Received requests, open slots, and released response bytes."""

    __slots__ = (
        "_backlog",
        "_held_bytes",
        "_is_blocked",
        "_limits",
        "_muted",
        "_slots",
        "_unread",
        "outgoing",
        "outgoing_bytes",
        "reader",
    )

    def __init__(self, scratch: Scratch, limits: ConnectionLimits) -> None:
        self.reader = FrameReader(scratch, limits.request_bytes_max)
        self.outgoing: list[Buffer] = []
        self.outgoing_bytes = 0
        self._limits = limits
        self._backlog: list[memoryview] = []  # requests not handed out yet, latest first
        self._slots: list[ResponseSlot] = []  # earliest first; the first is never complete
        self._held_bytes = 0
        self._muted = False
        self._unread = False
        self._is_blocked = False

    def received(self, count: int) -> None:
        """Takes over `count` bytes that were put into the buffer of the reader."""
        frames = self.reader.received(count)
        frames.reverse()
        self._backlog = frames + self._backlog if self._backlog else frames

    def next_request(self) -> memoryview | None:
        """Returns the next request; None if there is none or the stream is blocked."""
        if self._is_blocked:
            return None
        if self._backlog:
            return self._backlog.pop()
        if self.reader.violation is not None:
            raise ProtocolViolation(self.reader.violation)
        return None

    def respond(self, response: Ready) -> None:
        """Takes the response to the request that was handed out last."""
        if response is None:
            return
        if not self._slots:
            self._release(response, sum(map(len, response)))
            return
        slot = ResponseSlot(mutes=False)
        self._slots.append(slot)
        self._hold(slot, response)
        self._update_blocked()

    def defer(self, *, pipelined: bool) -> ResponseSlot:
        """Opens a slot for the request that was handed out last; `complete` ends it."""
        slot = ResponseSlot(mutes=not pipelined)
        self._slots.append(slot)
        self._update_blocked()
        return slot

    def complete(self, slot: ResponseSlot, response: Ready) -> None:
        """Takes a deferred response and releases all responses that no longer wait."""
        assert not slot.is_complete, "a request has one response"
        self._hold(slot, response)
        slots = self._slots
        while slots and slots[0].is_complete:
            first = slots.pop(0)
            self._held_bytes -= first.response_bytes
            if first.response is not None:
                self._release(first.response, first.response_bytes)
        self._update_blocked()

    def take_outgoing(self) -> list[Buffer]:
        """Returns and removes the released bytes, size prefixes included."""
        outgoing = self.outgoing
        self.outgoing = []
        self.outgoing_bytes = 0
        return outgoing

    def peer_reads(self, *, reads: bool) -> None:
        """Notes whether the peer reads its responses; while it does not, the stream blocks."""
        self._unread = not reads
        self._update_blocked()

    def apply(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self.reader.frame_bytes_max = limits.request_bytes_max
        self._update_blocked()

    @property
    def has_backlog(self) -> bool:
        """True if a request, or the violation after the last one, was not handed out yet."""
        return bool(self._backlog) or self.reader.violation is not None

    @property
    def is_blocked(self) -> bool:
        return self._is_blocked

    @property
    def open_slots(self) -> int:
        """Number of requests handed out whose responses are not released."""
        return len(self._slots)

    def _hold(self, slot: ResponseSlot, response: Ready) -> None:
        slot.is_complete = True
        slot.response = response
        slot.response_bytes = sum(map(len, response)) if response is not None else 0
        self._held_bytes += slot.response_bytes

    def _release(self, response: "Ready", response_bytes: int) -> None:
        assert response is not None
        self.outgoing.append(SIZE.pack(response_bytes))
        self.outgoing.extend(response)
        self.outgoing_bytes += response_bytes + 4

    def _update_blocked(self) -> None:
        slots = self._slots
        # Only the latest open slot can mute: no request was handed out after it.
        self._muted = bool(slots) and slots[-1].mutes and not slots[-1].is_complete
        self._is_blocked = (
            self._muted
            or self._unread
            or len(slots) >= self._limits.requests_in_flight_max
            or self._held_bytes > self._limits.held_bytes_max
        )
