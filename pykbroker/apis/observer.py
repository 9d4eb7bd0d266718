"""The interface through which a test kit observes, changes and delays requests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from pykbroker.apis.answers import Deferred, Waiting
from pykbroker.apis.node import Call
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.frame import read_request_header, read_response_header

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.answers import Answer, Ready
    from pykbroker.apis.node import Node
    from pykbroker.apis.peer import Peer
    from pykbroker_protocol.message import Message


class RequestObserver(Protocol):
    """Wraps the handlers of a broker. Decoding, version checks and order stay the same."""

    def wrap(self, api: Api, handle: Handle) -> Handle:
        """Returns the handler that serves this API in place of `handle`."""
        ...

    def admits_fast_path(self, api_key: int) -> bool:
        """Returns whether requests of an API can be served without their handler.

        Returns False if the observer changes or delays them: the wrapped handler serves them then.
        """
        ...

    def note_repeated(self, api: Api, call: Call, response: Message) -> None:
        """Notes a request that a fast path has served."""
        ...


def observed(
    observer: RequestObserver, node: Node, frame: memoryview, peer: Peer, answer: Answer
) -> Answer:
    """Reports the response of a fast path to the observer when it is available."""
    if isinstance(answer, Waiting):
        report = partial(_report_later, observer, node, frame, peer)
        return Waiting(
            Deferred(answer.awaitable, report),
            pipelined=answer.pipelined,
            answer_only=answer.answer_only,
        )
    _report(observer, node, frame, peer, answer)
    return answer


async def _report_later(
    observer: RequestObserver, node: Node, frame: memoryview, peer: Peer, answer: Awaitable[Ready]
) -> Ready:
    ready = await answer
    _report(observer, node, frame, peer, ready)
    return ready


def _report(
    observer: RequestObserver, node: Node, frame: memoryview, peer: Peer, ready: Ready
) -> None:
    assert ready is not None, "a fast path serves only requests that have a response"
    header = read_request_header(frame)
    api, version = node.offer.apis[header.api_key], header.api_version
    response = b"".join(ready)
    _, position = read_response_header(response, api.response_type, version)
    call = Call(node, version, header.client_id, peer)
    observer.note_repeated(api, call, decode(api.response_type, version, response, position))
