"""The ways in which a broker can fail its clients, each around the handler of a request."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pykbroker.apis.answers import ProtocolViolation
from pykbroker.testing.asked_for import lasting
from pykbroker.testing.refusing import READ_AND_CHANGED, changed, joined, refusal
from pykbroker_protocol.frame import write_response
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call
    from pykbroker.testing.sifting import Sieve
    from pykbroker_protocol.errors import ErrorCode

    Answer: TypeAlias = Message | Awaitable[Message | None] | None


class AnyFault(Protocol):
    """Of a fault, what its mischief asks."""

    hits: int

    @property
    def is_choosy(self) -> bool: ...
    def sieve(self, call: Call) -> Sieve: ...
    async def until_ended(self) -> None: ...
    def __str__(self) -> str: ...


class Victim(NamedTuple):
    """A request that a fault has met, and what would become of it."""

    fault: AnyFault
    api: Api
    handle: Handle
    request: Any
    call: Call

    async def served(self) -> Message | None:
        """The true answer."""
        return await settled(self.handle(self.request, self.call))


class Mischief(Protocol):
    """What is done to a request; its text names it in reports."""

    def strike(self, victim: Victim) -> Answer: ...
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

    def strike(self, victim: Victim) -> Answer:
        fault, call = victim.fault, victim.call
        if victim.api.key in READ_AND_CHANGED:
            return self.change(victim)
        if not fault.is_choosy:
            return self.refused(victim, victim.request)
        concerned, rest = fault.sieve(call).sift(victim.request)
        refused = self.refused(victim, concerned)
        return refused if rest is None else self.with_rest(victim, refused, rest)

    def refused(self, victim: Victim, request: Any) -> Message:
        made = refusal(request, victim.api.response_type, victim.call.version, self.code)
        assert isinstance(made, Message)
        return made

    async def change(self, victim: Victim) -> Message | None:
        answer = await victim.served()
        if answer is None:
            return None
        sieve, version = victim.fault.sieve(victim.call), victim.call.version
        refused = changed(answer, sieve, version, self.code)
        if refused is None:
            victim.fault.hits -= 1  # nothing in the answer was meant
        return refused or answer

    async def with_rest(self, victim: Victim, refused: Message, rest: Any) -> Message | None:
        answer = await settled(victim.handle(rest, victim.call))
        return None if answer is None else joined(refused, answer)


class Delay:
    """It is done at once, and answered late."""

    def __init__(self, seconds: float) -> None:
        self.seconds = lasting(seconds)

    def __str__(self) -> str:
        return f"answer {self.seconds:g} s late"

    async def strike(self, victim: Victim) -> Message | None:
        answer = await victim.served()
        await asyncio.sleep(self.seconds)
        return answer


class Stall:
    """It is done at once, and answered when the fault ends."""

    def __str__(self) -> str:
        return "hold the answer back"

    async def strike(self, victim: Victim) -> Message | None:
        answer = await victim.served()
        await victim.fault.until_ended()
        return answer


class Drop:
    """Nothing is done, and the connection is closed."""

    def __str__(self) -> str:
        return "drop the connection"

    def strike(self, victim: Victim) -> Answer:
        raise ProtocolViolation(f"a test asked to {victim.fault}")


class LoseAnswer:
    """It is done, and the connection is closed before the answer."""

    def __str__(self) -> str:
        return "lose the answer"

    async def strike(self, victim: Victim) -> Message | None:
        await victim.served()
        raise ProtocolViolation(f"a test asked to {victim.fault}")


class CutAnswer:
    """It is done, half of the answer is sent, and the connection is closed."""

    def __str__(self) -> str:
        return "cut the answer in half"

    async def strike(self, victim: Victim) -> Message | None:
        answer = await victim.served()
        whole = b"" if answer is None else framed(answer, victim.call)
        raise ProtocolViolation(f"a test asked to {victim.fault}", whole[: len(whole) // 2])


class DoTwice:
    """It is done twice, as if it had come twice; the second answer is given."""

    def __str__(self) -> str:
        return "do it twice"

    async def strike(self, victim: Victim) -> Message | None:
        await victim.served()
        return await victim.served()


def framed(answer: Message, call: Call) -> bytes:
    """As it travels, but for its correlation id: nobody looks into a frame that never ends."""
    body = b"".join(write_response(answer, call.version, 0))
    return len(body).to_bytes(4, "big") + body
