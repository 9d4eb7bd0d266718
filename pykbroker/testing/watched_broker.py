"""A broker that tells what it sees: requests, their answers, what coordinators decide."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pykbroker.apis.answers import Deferred
from pykbroker.apis.dispatch import Dispatcher, Route
from pykbroker.broker import Broker
from pykbroker.clock import SystemChance
from pykbroker.testing.fault_actions import FaultedRequest
from pykbroker.testing.timeline import client_of
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call
    from pykbroker.clock import Clock
    from pykbroker.settings import Settings
    from pykbroker.testing.fault_actions import Answer
    from pykbroker.testing.faults import Faults
    from pykbroker.testing.timeline import Timeline
    from pykbroker_protocol.frame import RequestHeader
    from pykbroker_storage.filesystem import FileSystem


class WatchedBroker(Broker):
    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        timeline: Timeline,
        faults: Faults,
        disk: FileSystem,
    ) -> None:
        super().__init__(settings=settings, clock=clock, chance=SystemChance())
        self.timeline = timeline
        self.faults = faults
        self.witness = timeline.note
        self.disk = disk
        self.is_crashing = False

    def open_directory(self, filesystem: FileSystem) -> None:
        del filesystem  # ours is as fleeting, and can be made to fail
        self._ending.callback(self.wake_who_waits)  # last: they shall find the logs closed
        super().open_directory(self.disk)

    def wake_who_waits(self) -> None:
        for partition in getattr(self, "partitions", ()):  # none, if it has not come as far
            partition.wake_all()

    async def crash(self) -> None:
        """Ends as if the process were killed: nobody is answered, nothing is written down."""
        self.is_crashing = True
        await self.edge.stop(0)
        await self.stop()

    def close_directory(self) -> None:
        if self.is_crashing:
            self.directory.abandon()
        else:
            super().close_directory()

    def dispatcher(self) -> Dispatcher:
        return WatchedDispatcher(self)


class WatchedDispatcher(Dispatcher):
    """Puts itself around the handlers; decoding, versions and turns are the broker's own."""

    def __init__(self, broker: WatchedBroker) -> None:
        super().__init__(broker.node)
        self.timeline = broker.timeline
        self.faults = broker.faults

    def find_route(self, header: RequestHeader) -> Route | None:
        route = super().find_route(header)
        if route is not None:
            route = route._replace(handle=self.watched(route.api, route.handle), learn=None)
            self._routes[header.api_key, header.api_version] = route
        return route

    def watched(self, api: Api, handle: Handle) -> Handle:
        """The handler, with a fault before it if there is one, and the timeline behind it."""

        def handle_and_note(request: Any, call: Call) -> Answer:
            fault = self.faults.fault_for(api, request, call)
            if fault is None:
                answer = handle(request, call)
            else:
                self.timeline.note(f"fault: {fault} strikes {client_of(call)}")
                answer = fault.action.apply(FaultedRequest(fault, api, handle, request, call))
            if isinstance(answer, Message):
                self.timeline.note_answer(api, call, answer)
            elif answer is not None:
                return Deferred(answer, partial(self.note_later, api, call))
            return answer

        return handle_and_note

    async def note_later(
        self, api: Api, call: Call, answer: Awaitable[Message | None]
    ) -> Message | None:
        message = await answer
        if message is not None:
            self.timeline.note_answer(api, call, message)
        return message
