"""Serves large requests in slices: other connections are served between two slices.

A handler that processes many elements is a generator. It counts them with `Slice` and yields when a
slice is full. `sliced` converts it to a handler: a request of one slice is answered immediately;
after a larger one, the next requests of the connection wait for its response.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pykbroker.apis.answers import Deferred, ProtocolViolation
from pykbroker.slices import SLICE_ELEMENTS, Slices, in_slices, next_turn
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from pykbroker.apis import Handle
    from pykbroker.apis.node import Call

__all__ = [
    "SLICE_ELEMENTS",
    "Slice",
    "Slices",
    "all_of",
    "each",
    "in_slices",
    "next_turn",
    "sliced",
]

Element = TypeVar("Element")
Answer = TypeVar("Answer")

RESPONSE_ELEMENTS_MAX: Final = 1_000_000
"""Bounds memory: a request can name the same large topic or group many times."""


class Slice:
    """Counts the elements served for a request and determines the end of each slice."""

    __slots__ = ("_left", "_total")

    def __init__(self) -> None:
        self._left = SLICE_ELEMENTS
        self._total = 0

    def is_full(self, elements: int = 1) -> bool:
        """Counts served elements; returns True if the caller must yield before the next one."""
        self._left -= elements
        if self._left > 0:
            return False
        self._total += SLICE_ELEMENTS - self._left
        self._left = SLICE_ELEMENTS
        if self._total > RESPONSE_ELEMENTS_MAX:
            raise ProtocolViolation(
                f"the response would have more than {RESPONSE_ELEMENTS_MAX} elements"
            )
        return True

    def each(
        self, answer: Callable[[Element], Answer], elements: Sequence[Element], *, weight: int = 1
    ) -> Slices[list[Answer]]:
        """Returns `answer(element)` of all elements and counts one more for the array.

        `weight` is the number of elements that a slow `answer` counts for.
        """
        answers: list[Answer] = []
        at, count = 0, len(elements)
        while (count - at) * weight >= self._left:
            stop = at + -(-self._left // weight)
            answers.extend(map(answer, elements[at:stop]))
            self.is_full((stop - at) * weight)
            yield
            at = stop
        answers.extend(map(answer, elements[at:] if at else elements))
        if self.is_full((count - at) * weight + 1):
            yield
        return answers


async def each(
    answer: Callable[[Element], Answer], elements: Sequence[Element], *, weight: int = 1
) -> list[Answer]:
    """`Slice.each` for handlers that are coroutines."""
    return await in_slices(Slice().each(answer, elements, weight=weight), begins_at_once=True)


def all_of(works: Iterable[Slices[Answer]]) -> Slices[list[Answer]]:
    """Returns the results of generators that run one after the other."""
    results = []
    for work in works:
        results.append((yield from work))  # noqa: PERF401  # a comprehension cannot yield
    return results


def sliced(handle: Callable[[Any, Call], Slices[Message | Awaitable[Message]]]) -> Handle:
    """Converts a generator, which returns a response or an awaitable of one, to a handler."""

    @wraps(handle)
    def serve_slices(request: Any, call: Call) -> Message | Awaitable[Message]:
        slices = handle(request, call)
        try:
            next(slices)
        except StopIteration as done:
            response: Message | Awaitable[Message] = done.value
            return response
        return Deferred(slices, rest)

    return serve_slices


async def rest(slices: Slices[Message | Awaitable[Message]]) -> Message:
    response = await in_slices(slices)
    return response if isinstance(response, Message) else await response
