"""The ways in which a broker can fail its clients, each around the handler of a request."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pykbroker.apis.answers import ProtocolViolation
from pykbroker.testing.active_fault import lasting
from pykbroker.testing.error_responses import READ_AND_CHANGED, changed, joined, refusal
from pykbroker_protocol.frame import write_response
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call
    from pykbroker.testing.request_splitting import PartitionFilter
    from pykbroker_protocol.errors import ErrorCode

    Answer: TypeAlias = Message | Awaitable[Message | None] | None


class AnyFault(Protocol):
    """Of a fault, what its action asks."""

    hits: int

    @property
    def is_selective(self) -> bool: ...
    def partition_filter(self, call: Call) -> PartitionFilter: ...
    async def until_ended(self) -> None: ...
    def __str__(self) -> str: ...


class FaultedRequest(NamedTuple):
    """A request that a fault has met, and what would become of it."""

    fault: AnyFault
    api: Api
    handle: Handle
    request: Any
    call: Call

    async def served(self) -> Message | None:
        """The true answer."""
        return await settled(self.handle(self.request, self.call))


class FaultAction(Protocol):
    """What is done to a request; its text names it in reports."""

    def apply(self, target: FaultedRequest) -> Answer: ...
    def __str__(self) -> str: ...


async def settled(answer: Answer) -> Message | None:
    if isawaitable(answer):
        return await answer
    return answer


class Refuse:
    """An error is answered, and nothing is done; what is not meant is served."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code

    def __str__(self) -> str:
        return f"answer {self.code.name}"

    def apply(self, target: FaultedRequest) -> Answer:
        fault, call = target.fault, target.call
        if target.api.key in READ_AND_CHANGED:
            return self.change(target)
        if not fault.is_selective:
            return self.refused(target, target.request)
        concerned, rest = fault.partition_filter(call).split(target.request)
        refused = self.refused(target, concerned)
        return refused if rest is None else self.with_rest(target, refused, rest)

    def refused(self, target: FaultedRequest, request: Any) -> Message:
        made = refusal(request, target.api.response_type, target.call.version, self.code)
        assert isinstance(made, Message)
        return made

    async def change(self, target: FaultedRequest) -> Message | None:
        answer = await target.served()
        if answer is None:
            return None
        sieve, version = target.fault.partition_filter(target.call), target.call.version
        refused = changed(answer, sieve, version, self.code)
        if refused is None:
            target.fault.hits -= 1  # nothing in the answer was meant
        return refused or answer

    async def with_rest(
        self, target: FaultedRequest, refused: Message, rest: Any
    ) -> Message | None:
        answer = await settled(target.handle(rest, target.call))
        return None if answer is None else joined(refused, answer)


class Delay:
    """It is done at once, and answered late."""

    def __init__(self, seconds: float) -> None:
        self.seconds = lasting(seconds)

    def __str__(self) -> str:
        return f"answer {self.seconds:g} s late"

    async def apply(self, target: FaultedRequest) -> Message | None:
        answer = await target.served()
        await asyncio.sleep(self.seconds)
        return answer


class Stall:
    """It is done at once, and answered when the fault ends."""

    def __str__(self) -> str:
        return "hold the answer back"

    async def apply(self, target: FaultedRequest) -> Message | None:
        answer = await target.served()
        await target.fault.until_ended()
        return answer


class Drop:
    """Nothing is done, and the connection is closed."""

    def __str__(self) -> str:
        return "drop the connection"

    def apply(self, target: FaultedRequest) -> Answer:
        raise ProtocolViolation(f"a test asked to {target.fault}")


class LoseAnswer:
    """It is done, and the connection is closed before the answer."""

    def __str__(self) -> str:
        return "lose the answer"

    async def apply(self, target: FaultedRequest) -> Message | None:
        await target.served()
        raise ProtocolViolation(f"a test asked to {target.fault}")


class CutAnswer:
    """It is done, half of the answer is sent, and the connection is closed."""

    def __str__(self) -> str:
        return "cut the answer in half"

    async def apply(self, target: FaultedRequest) -> Message | None:
        answer = await target.served()
        whole = b"" if answer is None else framed(answer, target.call)
        raise ProtocolViolation(f"a test asked to {target.fault}", whole[: len(whole) // 2])


class DoTwice:
    """It is done twice, as if it had come twice; the second answer is given."""

    def __str__(self) -> str:
        return "do it twice"

    async def apply(self, target: FaultedRequest) -> Message | None:
        await target.served()
        return await target.served()


def framed(answer: Message, call: Call) -> bytes:
    """As it travels, but for its correlation id: nobody looks into a frame that never ends."""
    body = b"".join(write_response(answer, call.version, 0))
    return len(body).to_bytes(4, "big") + body
