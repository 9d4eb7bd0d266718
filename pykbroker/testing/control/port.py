"""The door of the control port: connections from this machine, one request on each."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pykbroker.broker import CannotStart
from pykbroker.testing.control.http import (
    HEAD_BYTES_MAX,
    HttpRefusal,
    HttpRequest,
    PeerGone,
    answer_bytes,
    read_request,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Answer = Callable[[HttpRequest], Awaitable[tuple[int, Any]]]

logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
WHAT_LENGTH_MAX: Final = 200
READ_SECONDS_MAX: Final = 30.0
"""Of a whole request: who is slower than that will not be helped."""


class ControlPort:
    """Listens on a loopback address; whoever starts it has made sure that it is one."""

    def __init__(self, answer: Answer, host: str, port: int) -> None:
        self._answer = answer
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._conversations: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        try:
            self._server = await asyncio.start_server(
                self._meet, self._host, self._port, limit=HEAD_BYTES_MAX
            )
        except OSError as reason:
            where = f"{self._host}:{self._port}"
            raise CannotStart(f"control port {where}: {reason.strerror or reason}") from reason
        self._port = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    async def close(self) -> None:
        """Whoever waits for an answer gets none any more."""
        if self._server is not None:
            self._server.close()
        conversations = tuple(self._conversations - {asyncio.current_task()})
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._conversations.add(task)
        try:
            with suppress(PeerGone, ConnectionError, asyncio.CancelledError):
                status, document = await self._answered(reader, writer)
                writer.write(answer_bytes(status, document))
                await writer.drain()
        finally:
            self._conversations.discard(task)
            writer.close()

    async def _answered(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[int, Any]:
        if len(self._conversations) > CONNECTIONS_MAX:
            return refused(HttpRefusal(503, f"more than {CONNECTIONS_MAX} requests at a time"))
        try:
            async with asyncio.timeout(READ_SECONDS_MAX):
                request = await read_request(reader, writer)
        except HttpRefusal as refusal:
            return refused(refusal)
        except TimeoutError:
            return refused(HttpRefusal(408, f"no request within {READ_SECONDS_MAX:g} s"))
        try:
            return await self._answer(request)
        except HttpRefusal as refusal:
            return refused(refusal)
        except Exception:
            what = f"{request.method} /{'/'.join(request.path)}"
            logger.exception("the control port failed on %r", what[:WHAT_LENGTH_MAX])
            return refused(HttpRefusal(500, "the broker failed; its log says how"))


def refused(refusal: HttpRefusal) -> tuple[int, Any]:
    return refusal.status, {"error": str(refusal)}
