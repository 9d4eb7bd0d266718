"""The environment of an embedded broker: faults before each handler, the timeline behind it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pykbroker.apis.answers import Deferred
from pykbroker.environment import Environment
from pykbroker.testing.fault_actions import FaultedRequest
from pykbroker.testing.timeline import client_of
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call
    from pykbroker.apis.offer import Offer
    from pykbroker.clock import Clock
    from pykbroker.testing.fault_actions import Response
    from pykbroker.testing.faults import Faults
    from pykbroker.testing.timeline import Timeline
    from pykbroker_storage.filesystem import FileSystem


def embedded_environment(
    *, clock: Clock, disk: FileSystem, offer: Offer, faults: Faults, timeline: Timeline
) -> Environment:
    return Environment(
        clock=clock,
        filesystem=disk,
        offer=offer,
        decision_observer=timeline.note,
        request_observer=FaultInjection(faults, timeline),
    )


class FaultInjection:
    """Applies faults to requests and records errors in the timeline."""

    def __init__(self, faults: Faults, timeline: Timeline) -> None:
        self._faults = faults
        self._timeline = timeline

    def wrap(self, api: Api, handle: Handle) -> Handle:
        def handle_and_note(request: Any, call: Call) -> Response:
            fault = self._faults.fault_for(api, request, call)
            if fault is None:
                answer = handle(request, call)
            else:
                self._timeline.note(f"fault: {fault}; applied to {client_of(call)}")
                answer = fault.action.apply(FaultedRequest(fault, api, handle, request, call))
            if isinstance(answer, Message):
                self._timeline.note_answer(api, call, answer)
            elif answer is not None:
                return Deferred(answer, partial(self._note_later, api, call))
            return answer

        return handle_and_note

    def admits_fast_path(self, api_key: int) -> bool:
        return not self._faults.may_apply_to(api_key)

    def note_repeated(self, api: Api, call: Call, response: Message) -> None:
        self._timeline.note_answer(api, call, response)

    async def _note_later(
        self, api: Api, call: Call, answer: Awaitable[Message | None]
    ) -> Message | None:
        message = await answer
        if message is not None:
            self._timeline.note_answer(api, call, message)
        return message
