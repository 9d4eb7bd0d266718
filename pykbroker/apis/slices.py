"""Serves large requests in slices: other connections are served between two slices.

A handler that goes through many elements is a generator. It counts them with `Slice` and yields
when a slice is full. `sliced` makes a handler of it: a request of one slice is answered at once; a
larger one keeps the next requests of its connection waiting until it is answered.

All large requests of an event loop share one queue: the loop does one slice in each iteration,
however many connections ask for more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from pykbroker.apis.answers import Deferred, ProtocolViolation
from pykbroker_protocol.compiler import SLICE_ELEMENTS
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
    from typing import TypeAlias

    from pykbroker.apis import Handle
    from pykbroker.apis.node import Call

    T = TypeVar("T")
    Slices: TypeAlias = Generator[None, None, T]
    """Yields after each slice and returns the result."""

Element = TypeVar("Element")
Answer = TypeVar("Answer")

RESPONSE_ELEMENTS_MAX: Final = 1_000_000
"""A request can name the same large thing many times; its answer has to fit in memory."""


class Slice:
    """Counts the elements served for one request, and tells when a slice is full."""

    __slots__ = ("_left", "_total")

    def __init__(self) -> None:
        self._left = SLICE_ELEMENTS
        self._total = 0

    def is_full(self, elements: int = 1) -> bool:
        """Counts elements that were served; True: yield before the next one."""
        self._left -= elements
        if self._left > 0:
            return False
        self._total += SLICE_ELEMENTS - self._left
        self._left = SLICE_ELEMENTS
        if self._total > RESPONSE_ELEMENTS_MAX:
            raise ProtocolViolation(
                f"the response would hold more than {RESPONSE_ELEMENTS_MAX} elements"
            )
        return True

    def each(
        self, answer: Callable[[Element], Answer], elements: Sequence[Element]
    ) -> Slices[list[Answer]]:
        """The answers to all elements, in their order; one more is counted for the array itself."""
        answers: list[Answer] = []
        at, count = 0, len(elements)
        while count - at >= self._left:
            stop = at + self._left
            answers.extend(map(answer, elements[at:stop]))
            self.is_full(stop - at)
            yield
            at = stop
        answers.extend(map(answer, elements[at:] if at else elements))
        if self.is_full(count - at + 1):
            yield
        return answers


def all_of(works: Iterable[Slices[Answer]]) -> Slices[list[Answer]]:
    """The results of works that are themselves done in slices, one after the other."""
    results = []
    for work in works:
        results.append((yield from work))  # noqa: PERF401  # a comprehension cannot yield
    return results


def sliced(handle: Callable[[Any, Call], Slices[Message | Awaitable[Message]]]) -> Handle:
    """A handler made of a generator, which returns the response or something that waits for it."""

    @wraps(handle)
    def handled(request: Any, call: Call) -> Message | Awaitable[Message]:
        slices = handle(request, call)
        try:
            next(slices)
        except StopIteration as done:
            response: Message | Awaitable[Message] = done.value
            return response
        return Deferred(slices, rest)

    return handled


async def rest(slices: Slices[Message | Awaitable[Message]]) -> Message:
    response = await in_slices(slices)
    return response if isinstance(response, Message) else await response


async def in_slices(slices: Slices[T]) -> T:
    """Runs a generator to its end, one slice at each turn; whatever it holds is closed."""
    try:
        while True:
            await next_turn()
            next(slices)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        slices.close()


class Turns:
    """The queue of those that want to do a slice of work: one at each iteration of the loop."""

    __slots__ = ("_is_scheduled", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False

    def wait(self) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        self._schedule()
        return turn

    def _schedule(self) -> None:
        if not self._is_scheduled and self._waiting:
            self._is_scheduled = True
            self._loop.call_soon(self._give_turn)

    def _give_turn(self) -> None:
        self._is_scheduled = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                turn.set_result(None)
                break
        self._schedule()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def next_turn() -> asyncio.Future[None]:
    """Await this between two slices of work."""
    loop = asyncio.get_running_loop()
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = Turns(loop)
    return turns.wait()
