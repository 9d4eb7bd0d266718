"""A blocking client that sends single requests in a given version."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any, Self

from pykbroker_protocol.catalog import response_of
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.frame import read_response_header, write_request

if TYPE_CHECKING:
    from pykbroker_protocol.message import Message

TIMEOUT_SECONDS = 30.0


class Closed(ConnectionError):
    """The broker closed the connection or cannot be reached."""


class Wire:
    """A connection to a broker. Several requests may be sent before their responses are read."""

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        client_id: str = "test",
        receive_buffer: int = 0,
        patience_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.client_id = client_id
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.socket.settimeout(patience_seconds)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket.connect((host, port))
        except OSError as error:
            self.socket.close()
            raise Closed(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.receive(type(request), version)

    def send(self, request: Message, version: int) -> None:
        self.send_frame(b"".join(write_request(request, version, 7, self.client_id)))

    def receive(self, request_type: type[Message], version: int) -> Any:
        frame = self.receive_frame()
        response = response_of(request_type.api)
        assert response is not None
        correlation_id, position = read_response_header(frame, response, version)
        assert correlation_id == 7
        return decode(response, version, frame, position)

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Closed(str(error)) from error

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def receive_exactly(self, count: int) -> bytes:
        parts = []
        while count:
            try:
                part = self.socket.recv(min(count, 1 << 20))
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not part:
                raise Closed("the broker closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
