"""Reads lines from standard input without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from pykbroker.cli.failure import CommandFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CHUNK_BYTES: Final = 1 << 20
LINE_BYTES_MAX: Final = 64 << 20
STDIN: Final = 0


async def line_groups(descriptor: int = STDIN) -> AsyncIterator[list[bytes]]:
    """Yields the complete lines of each read, so that typed lines are sent without delay."""
    rest = b""
    while True:
        await until_readable(descriptor)
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise CommandFailed(f"line exceeds {LINE_BYTES_MAX} bytes")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


async def until_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:
        return  # a regular file is always readable; epoll does not support it
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
