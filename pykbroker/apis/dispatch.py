"""Serves request frames: finds the API, checks the version, decodes, handles, encodes."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.apis import api_versions
from pykbroker.apis.answers import (
    Answer,
    Deferred,
    ProtocolViolation,
    Ready,
    Waiting,
    unreadable,
)
from pykbroker.apis.node import Call
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import (
    SLICE_ELEMENTS,
    MalformedMessage,
    TooManyElements,
    reader_of,
)
from pykbroker_protocol.frame import (
    read_request_header,
    response_writer,
    skip_tags,
    write_response,
)
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.fast_path import Store
    from pykbroker.apis.node import Node
    from pykbroker.apis.observer import RequestObserver
    from pykbroker.apis.offer import Offer
    from pykbroker.apis.peer import Peer, Repeats
    from pykbroker_protocol.compiler import Buffer, Reader
    from pykbroker_protocol.frame import RequestHeader

logger = logging.getLogger(__name__)


class Route(NamedTuple):
    """Reader, handler and writer of one API version, looked up once and cached."""

    api: Api
    version: int
    read: Reader[Message]
    handle: Handle
    write: Callable[[Message, int], Sequence[Buffer]]
    """Raises TooManyElements if the response must be written in slices."""
    is_flexible: bool
    store: Store | None = None
    """Stores a request and its response for a fast path."""


class Dispatcher:
    """Serves the requests of all connections of a node."""

    def __init__(self, node: Node, observer: RequestObserver | None = None) -> None:
        self.node = node
        self._observer = observer
        self._routes: dict[tuple[int, int], Route] = {}

    def serve(self, frame: memoryview, peer: Peer) -> Answer:
        """Returns the response or an awaitable; raises ProtocolViolation for a malformed frame."""
        if peer.repeats is not None:
            observer = self._observer
            if observer is None:
                repeated: Answer = peer.repeats.answer(frame)
            else:
                repeated = self.serve_observed(observer, frame, peer, peer.repeats)
            if repeated is not None:
                return repeated
        try:
            header = read_request_header(frame)
            version = header.api_version
            route = self._routes.get((header.api_key, version)) or self.find_route(header)
            if route is None:
                return refuse_version(header, self.node.offer)
            position = header.body_position
            if route.is_flexible:
                position = skip_tags(frame, position)
            request, _ = route.read(frame, position, SLICE_ELEMENTS)
        except TooManyElements:
            assert route is not None, "the reader of the route raised"
            return self.serve_in_slices(frame, position, header, route, peer)
        except MalformedMessage as error:
            raise unreadable(frame, error) from error
        if peer.client_id is None:
            peer.client_id = header.client_id
        call = Call(self.node, version, header.client_id, peer)
        response = route.handle(request, call)
        if route.store is not None and (expected := expected_response(response)) is not None:
            route.store(call, route, frame, request, expected)
        return answered(response, route, header.correlation_id)

    def serve_observed(
        self, observer: RequestObserver, frame: memoryview, peer: Peer, repeats: Repeats
    ) -> Answer:
        """Returns the response of the fast path, unless the observer must see the request."""
        from pykbroker.apis.observer import observed  # noqa: PLC0415 - for test kits

        if not observer.admits_fast_path(int.from_bytes(frame[:2], "big")):
            return None
        answer: Answer = repeats.answer(frame)
        return None if answer is None else observed(observer, self.node, frame, peer, answer)

    def serve_in_slices(
        self, frame: memoryview, position: int, header: RequestHeader, route: Route, peer: Peer
    ) -> Waiting:
        """Serves a large request; later requests of the connection wait for its response."""
        from pykbroker.apis.large_requests import serve  # noqa: PLC0415 - not needed by a start

        if peer.client_id is None:
            peer.client_id = header.client_id
        call = Call(self.node, header.api_version, header.client_id, peer)
        return Waiting(
            Deferred(
                (frame, position),
                partial(serve, route.api, route.handle, call, header.correlation_id),
            ),
            pipelined=False,
            answer_only=route.api.answer_only,
        )

    def find_route(self, header: RequestHeader) -> Route | None:
        version = header.api_version
        api = self.node.offer.apis.get(header.api_key)
        if api is None or version not in api.served:
            return None
        if api.forwarded and self.node.forward is not None:
            api = api.forwarding()
        observer = self._observer
        route = Route(
            api=api,
            version=version,
            read=reader_of(api.request_type, version),
            handle=api.handle if observer is None else observer.wrap(api, api.handle),
            write=response_writer(api.response_type, version, SLICE_ELEMENTS),
            is_flexible=version in api.request_type.flexible,
            store=store_function_of(header.api_key),
        )
        self._routes[header.api_key, version] = route
        return route


def store_function_of(api_key: int) -> Store | None:
    """Returns the function that stores requests of an API for its fast path.

    Imports the fast path at the first request, not at startup.
    """
    if api_key == ApiKey.PRODUCE:
        from pykbroker.apis import repeated_produce  # noqa: PLC0415

        return repeated_produce.store
    if api_key == ApiKey.OFFSET_COMMIT:
        from pykbroker.apis import repeated_commit  # noqa: PLC0415

        return repeated_commit.store
    return None


def refuse_version(header: RequestHeader, offer: Offer) -> Answer:
    """Returns the error of ApiVersions; like Kafka, other APIs lose their connection."""
    if header.api_key == ApiKey.API_VERSIONS:
        return write_response(api_versions.too_new(offer), 0, header.correlation_id)
    name = ApiKey(header.api_key).name if header.api_key in set(ApiKey) else "unknown"
    raise ProtocolViolation(
        f"api key {header.api_key} ({name}) version {header.api_version} is not served"
    )


def expected_response(response: Any) -> Message | None:
    """Returns the response, also if it is sent later and only an error could change it."""
    expected = response.expected if isinstance(response, Deferred) else response
    return expected if isinstance(expected, Message) else None


def answered(response: Any, route: Route, correlation_id: int) -> Answer:
    """Converts the result of a handler to the answer for the connection."""
    if isinstance(response, Message):
        try:
            return route.write(response, correlation_id)
        except TooManyElements:
            pass  # written in slices
    elif response is None:
        return None
    return Waiting(
        Deferred(response, partial(write_later, route, correlation_id)),
        pipelined=route.api.pipelined and not (isinstance(response, Deferred) and response.mutes),
        answer_only=route.api.answer_only,
    )


async def write_later(
    route: Route, correlation_id: int, response: Message | Awaitable[Message | None]
) -> Ready:
    message = response if isinstance(response, Message) else await response
    if message is None:
        return None
    try:
        return route.write(message, correlation_id)
    except TooManyElements:
        from pykbroker.apis.large_requests import write  # noqa: PLC0415 - as above

        return await write(message, route.version, correlation_id)
