"""A real broker on a simulated host: its network, disk, time and chance are those of the world."""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.apis.answers import Deferred
from pykbroker.apis.dispatch import Dispatcher, Route
from pykbroker.broker import Broker, end_tasks
from pykbroker.partitions.upkeep import Upkeep
from pykbroker.settings import Listener as Address
from pykbroker.settings import parse_listener
from pykbroker.testing.response_errors import errors_in
from pykbroker.testing.simulation.inline_compaction import InlineCompaction
from pykbroker.testing.simulation.virtual_listeners import VirtualListener
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call
    from pykbroker.clock import Chance, Clock
    from pykbroker.settings import Settings
    from pykbroker.testing.simulation.disk import CrashingDisk
    from pykbroker.testing.simulation.network import Network
    from pykbroker.testing.simulation.trace import Trace
    from pykbroker.transport.listener import Listener
    from pykbroker_protocol.frame import RequestHeader
    from pykbroker_storage.filesystem import FileSystem

logger = logging.getLogger(__name__)


class Surroundings(NamedTuple):
    """All that a broker has of the world."""

    clock: Clock
    chance: Chance
    network: Network
    disk: CrashingDisk
    trace: Trace


class SimulatedBroker(Broker):
    def __init__(self, settings: Settings, around: Surroundings) -> None:
        super().__init__(settings=settings, clock=around.clock, chance=around.chance)
        self.around = around
        self.witness = around.trace.note
        self.is_crashing = False

    async def bind_listeners(self) -> list[Listener]:
        network = self.around.network
        listeners: list[Listener] = []
        for wanted in (parse_listener(it) for it in self.settings.listeners):
            door = network.open_door(wanted.host, wanted.port, lambda _: None)
            listener = VirtualListener(wanted.name, door, lambda it=door: network.close_door(it))  # type: ignore[misc]  # bound at once
            self._ending.callback(listener.close)
            self.bound_port = self.bound_port or door.place[1]
            self.addresses.append(Address(wanted.name, *door.place))
            listeners.append(listener)
        return listeners

    def open_directory(self, filesystem: FileSystem) -> None:
        del filesystem  # ours can crash
        super().open_directory(self.around.disk)

    def start_upkeep(self) -> None:
        upkeep = Upkeep(self.partitions, lambda: InlineCompaction(self.around.disk))
        self._ending.push_async_callback(end_tasks, upkeep.start())

    def dispatcher(self) -> Dispatcher:
        return TracingDispatcher(self)

    async def crash(self) -> None:
        """Nothing more reaches disk or network by now; what is left is to forget it all."""
        self.is_crashing = True
        try:
            await self.edge.stop(0)
        finally:
            with contextlib.suppress(OSError):  # the disk takes nothing any more
                await self.stop()

    def close_directory(self) -> None:
        if self.is_crashing:
            self.directory.abandon()
        else:
            super().close_directory()


class TracingDispatcher(Dispatcher):
    """Notes each request, and what was refused in its answer."""

    def __init__(self, broker: SimulatedBroker) -> None:
        super().__init__(broker.node)
        self._note = broker.around.trace.note

    def find_route(self, header: RequestHeader) -> Route | None:
        route = super().find_route(header)
        if route is not None:
            route = route._replace(handle=self._noting(route.api, route.handle), learn=None)
            self._routes[header.api_key, header.api_version] = route
        return route

    def _noting(self, api: Api, handle: Handle) -> Handle:
        def handle_and_note(request: Any, call: Call) -> Any:
            self._note(f"{api.title} v{call.version} of {call.client_id} at {call.peer.host}")
            answer = handle(request, call)
            if answer is None or isinstance(answer, Message):
                self._note_answer(api, call, answer)
                return answer
            return Deferred(answer, partial(self._later, api, call))

        return handle_and_note

    async def _later(
        self, api: Api, call: Call, answer: Awaitable[Message | None]
    ) -> Message | None:
        message = await answer
        self._note_answer(api, call, message)
        return message

    def _note_answer(self, api: Api, call: Call, answer: Message | None) -> None:
        for error in errors_in(answer) if answer is not None else ():
            self._note(f"{api.title} of {call.client_id} at {call.peer.host}: {error}")
