"""From a frame to its answer: find the API, gate the version, decode, handle, encode."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykbroker.apis import APIS, api_versions
from pykbroker.apis.answers import Answer, ProtocolViolation, Ready, Waiting
from pykbroker.apis.node import Call
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage, reader_of
from pykbroker_protocol.frame import body_position, read_request_header, write_response
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Node
    from pykbroker.apis.peer import Peer
    from pykbroker_protocol.frame import RequestHeader

logger = logging.getLogger(__name__)


class Dispatcher:
    """Serves the requests of all connections of one node."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def serve(self, frame: memoryview, peer: Peer) -> Answer:
        """The answer to one request, now or later; a frame that cannot be read ends its peer."""
        try:
            header = read_request_header(frame)
            if peer.client_id is None:
                peer.client_id = header.client_id
            api = APIS.get(header.api_key)
            if api is None or header.api_version not in api.served:
                return self.refuse_version(header)
            request_type = api.request_type
            position = body_position(header, frame, request_type)
            request, _ = reader_of(request_type, header.api_version)(frame, position)
        except MalformedMessage as error:
            raise ProtocolViolation(explain(frame, error)) from error
        call = Call(
            node=self.node, version=header.api_version, client_id=header.client_id, peer=peer
        )
        response = api.handle(request, call)
        if isinstance(response, Message):
            return write_response(response, header.api_version, header.correlation_id)
        if response is None:
            return None
        return Waiting(
            encode_later(response, header), pipelined=api.pipelined, answer_only=api.answer_only
        )

    def refuse_version(self, header: RequestHeader) -> Answer:
        """Only ApiVersions has words for it; to anything else Kafka closes the connection."""
        if header.api_key == ApiKey.API_VERSIONS:
            return write_response(api_versions.too_new(), 0, header.correlation_id)
        name = ApiKey(header.api_key).name if header.api_key in set(ApiKey) else "unknown"
        raise ProtocolViolation(
            f"api key {header.api_key} ({name}) version {header.api_version} is not served"
        )


async def encode_later(response: Awaitable[Message | None], header: RequestHeader) -> Ready:
    message = await response
    if message is None:
        return None
    return write_response(message, header.api_version, header.correlation_id)


def explain(frame: memoryview, error: MalformedMessage) -> str:
    """One line for the log: the field and the byte at which the frame goes wrong."""
    from pykbroker_protocol.explain import first_fault  # noqa: PLC0415  # loads construct

    return f"{error}; {first_fault(frame)}"
