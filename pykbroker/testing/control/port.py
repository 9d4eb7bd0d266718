"""The listener of the control port: one request per connection."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pykbroker.broker import CannotStart
from pykbroker.testing.control.http import (
    HEAD_BYTES_MAX,
    HttpError,
    HttpRequest,
    PeerGone,
    read_request,
    response_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Answer = Callable[[HttpRequest], Awaitable[tuple[int, Any]]]

logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
LOGGED_PATH_LENGTH_MAX: Final = 200
READ_SECONDS_MAX: Final = 30.0
"""Maximum duration of the reception of a request."""


class ControlPort:
    """Listens on a loopback address, which the caller has validated."""

    def __init__(self, answer: Answer, host: str, port: int) -> None:
        self._answer = answer
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._requests: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self._port, limit=HEAD_BYTES_MAX
            )
        except OSError as reason:
            where = f"{self._host}:{self._port}"
            raise CannotStart(f"control port {where}: {reason.strerror or reason}") from reason
        self._port = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    async def close(self) -> None:
        """Stops listening and closes connections without a response."""
        if self._server is not None:
            self._server.close()
        requests = tuple(self._requests - {asyncio.current_task()})
        for task in requests:
            task.cancel()
        await asyncio.gather(*requests, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            with suppress(PeerGone, ConnectionError, asyncio.CancelledError):
                status, document = await self._response(reader, writer)
                writer.write(response_bytes(status, document))
                await writer.drain()
        finally:
            self._requests.discard(task)
            writer.close()

    async def _response(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[int, Any]:
        if len(self._requests) > CONNECTIONS_MAX:
            return error_response(
                HttpError(503, f"more than {CONNECTIONS_MAX} concurrent requests")
            )
        try:
            async with asyncio.timeout(READ_SECONDS_MAX):
                request = await read_request(reader, writer)
        except HttpError as error:
            return error_response(error)
        except TimeoutError:
            message = f"request not complete after {READ_SECONDS_MAX:g} s"
            return error_response(HttpError(408, message))
        try:
            return await self._answer(request)
        except HttpError as error:
            return error_response(error)
        except Exception:
            path = f"{request.method} /{'/'.join(request.path)}"
            logger.exception("control port: internal error in %r", path[:LOGGED_PATH_LENGTH_MAX])
            return error_response(HttpError(500, "internal error, see the broker's log"))


def error_response(error: HttpError) -> tuple[int, Any]:
    return error.status, {"error": str(error)}
