"""One connection without its socket: bytes in, requests out, answers back in request order.

Every request takes a turn. An answer leaves when all earlier turns are answered, whatever order
they complete in; a request without an answer (acks=0) keeps its turn and sends nothing. Requests
are handed out one by one, in order, and none while the stream is *held up*:

- muted: a request asked that nothing further be served before it is answered,
- full: too many turns are open or too many answer bytes wait for an earlier turn,
- unread: the peer does not take its answers (the connection says so).
"""

from pykbroker.apis.answers import Buffer, ProtocolViolation, Ready
from pykbroker.framing.frame_reader import SIZE, FrameReader, Scratch
from pykbroker.transport.limits import ConnectionLimits


class Turn:
    """The place of a request in the order of answers, while its answer or an earlier one is due."""

    __slots__ = ("answer", "answer_bytes", "is_answered", "mutes")

    def __init__(self, *, mutes: bool) -> None:
        self.mutes = mutes
        self.is_answered = False
        self.answer: Ready = None
        self.answer_bytes = 0


class RequestStream:
    """The requests of one connection, their turns, and the answer bytes that may leave."""

    __slots__ = (
        "_backlog",
        "_held_bytes",
        "_held_up",
        "_limits",
        "_muted",
        "_turns",
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
        self._turns: list[Turn] = []  # open turns, earliest first; the first is never answered
        self._held_bytes = 0
        self._muted = False
        self._unread = False
        self._held_up = False

    def received(self, count: int) -> None:
        """So many bytes were put into the reader's buffer."""
        frames = self.reader.received(count)
        frames.reverse()
        self._backlog = frames + self._backlog if self._backlog else frames

    def next_request(self) -> memoryview | None:
        """The next request to serve; None when there is none or the stream is held up."""
        if self._held_up:
            return None
        if self._backlog:
            return self._backlog.pop()
        if self.reader.violation is not None:
            raise ProtocolViolation(self.reader.violation)
        return None

    def answer(self, answer: Ready) -> None:
        """The request handed out last is answered at once."""
        if answer is None:
            return
        if not self._turns:
            self._release(answer, sum(map(len, answer)))
            return
        turn = Turn(mutes=False)
        self._turns.append(turn)
        self._settle(turn, answer)
        self._reckon()

    def wait(self, *, pipelined: bool) -> Turn:
        """The request handed out last is answered later."""
        turn = Turn(mutes=not pipelined)
        self._turns.append(turn)
        self._reckon()
        return turn

    def complete(self, turn: Turn, answer: Ready) -> None:
        """The answer to an earlier request has come."""
        assert not turn.is_answered, "a request is answered once"
        self._settle(turn, answer)
        turns = self._turns
        while turns and turns[0].is_answered:
            first = turns.pop(0)
            self._held_bytes -= first.answer_bytes
            if first.answer is not None:
                self._release(first.answer, first.answer_bytes)
        self._reckon()

    def take_outgoing(self) -> list[Buffer]:
        """The bytes that may leave now, size prefixes included."""
        outgoing = self.outgoing
        self.outgoing = []
        self.outgoing_bytes = 0
        return outgoing

    def peer_reads(self, *, reads: bool) -> None:
        """Whether the peer takes its answers; while it does not, no further request is served."""
        self._unread = not reads
        self._reckon()

    def apply(self, limits: ConnectionLimits) -> None:
        """From now on these limits hold."""
        self._limits = limits
        self.reader.frame_bytes_max = limits.request_bytes_max
        self._reckon()

    @property
    def has_backlog(self) -> bool:
        """Whether requests, or the violation after them, are still to be handed out."""
        return bool(self._backlog) or self.reader.violation is not None

    @property
    def is_held_up(self) -> bool:
        return self._held_up

    @property
    def open_turns(self) -> int:
        """How many requests were handed out whose answers have not been released."""
        return len(self._turns)

    def _settle(self, turn: Turn, answer: Ready) -> None:
        turn.is_answered = True
        turn.answer = answer
        turn.answer_bytes = sum(map(len, answer)) if answer is not None else 0
        self._held_bytes += turn.answer_bytes

    def _release(self, answer: "Ready", answer_bytes: int) -> None:
        assert answer is not None
        self.outgoing.append(SIZE.pack(answer_bytes))
        self.outgoing.extend(answer)
        self.outgoing_bytes += answer_bytes + 4

    def _reckon(self) -> None:
        turns = self._turns
        # Only the latest open turn can mute: nothing was handed out after it.
        self._muted = bool(turns) and turns[-1].mutes and not turns[-1].is_answered
        self._held_up = (
            self._muted
            or self._unread
            or len(turns) >= self._limits.requests_in_flight_max
            or self._held_bytes > self._limits.held_bytes_max
        )
