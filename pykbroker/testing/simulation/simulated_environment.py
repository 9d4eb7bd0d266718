"""The environment of a broker on a simulated host."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pykbroker.apis.answers import Deferred
from pykbroker.environment import Environment, SystemNetwork
from pykbroker.testing.response_errors import errors_in
from pykbroker.testing.simulation.inline_compaction import InlineCompaction
from pykbroker.testing.simulation.virtual_listeners import VirtualListener
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call
    from pykbroker.clock import Clock, Randomness
    from pykbroker.testing.simulation.disk import CrashingDisk
    from pykbroker.testing.simulation.network import Network
    from pykbroker.testing.simulation.trace import Trace
    from pykbroker.transport.limits import ConnectionLimits
    from pykbroker.transport.listener import Listener


OnAnswer: TypeAlias = "Callable[[Api, Message], None]"


def simulated_environment(
    *,
    clock: Clock,
    randomness: Randomness,
    network: Network,
    disk: CrashingDisk,
    trace: Trace,
    on_answer: OnAnswer,
) -> Environment:
    return Environment(
        clock=clock,
        randomness=randomness,
        filesystem=disk,
        new_compaction_worker=partial(InlineCompaction, disk),
        network=SimulatedNetwork(network),
        decision_observer=trace.note,
        request_observer=RequestTrace(trace, on_answer),
    )


class SimulatedNetwork(SystemNetwork):
    """Listens on simulated hosts; `connect` is inherited, the virtual event loop serves it."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def listen(self, name: str, host: str, port: int, limits: ConnectionLimits) -> Listener:
        del limits  # of sockets
        listening = self._network.listen(host, port, lambda _: None)
        return VirtualListener(name, listening, partial(self._network.close_port, listening))


class RequestTrace:
    """Writes each request, and the errors of its response, into the trace."""

    def __init__(self, trace: Trace, on_answer: OnAnswer) -> None:
        self._trace = trace
        self._on_answer = on_answer

    def wrap(self, api: Api, handle: Handle) -> Handle:
        def handle_and_note(request: Any, call: Call) -> Any:
            self._note_request(api, call)
            answer = handle(request, call)
            if answer is None or isinstance(answer, Message):
                self._note_answer(api, call, answer)
                return answer
            return Deferred(answer, partial(self._later, api, call))

        return handle_and_note

    def admits_fast_path(self, api_key: int) -> bool:
        del api_key
        return True

    def note_repeated(self, api: Api, call: Call, response: Message) -> None:
        self._note_request(api, call)
        self._note_answer(api, call, response)

    async def _later(
        self, api: Api, call: Call, answer: Awaitable[Message | None]
    ) -> Message | None:
        message = await answer
        self._note_answer(api, call, message)
        return message

    def _note_request(self, api: Api, call: Call) -> None:
        self._trace.note(f"{api.title} v{call.version} of {call.client_id} at {call.peer.host}")

    def _note_answer(self, api: Api, call: Call, answer: Message | None) -> None:
        if answer is not None:
            self._on_answer(api, answer)
        for error in errors_in(answer) if answer is not None else ():
            self._trace.note(f"{api.title} of {call.client_id} at {call.peer.host}: {error}")
