"""Web server of the dashboard: three files, the map, and the state as server-sent events."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .geography import BORDER, CITIES, ROADS, ZONES, Point, Road

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator

    from .fleet_state import FleetState

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
}
FRAME_SECONDS = 0.25
REQUEST_SECONDS_MAX = 10
WRITE_SECONDS_MAX = 30
"""Connections of browsers that do not read for this time are closed."""


@asynccontextmanager
async def served(state: FleetState, port: int = 0) -> AsyncIterator[str]:
    """Serves the page on loopback; yields its URL."""
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.ensure_future(respond(state, reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def respond(state: FleetState, reader: StreamReader, writer: StreamWriter) -> None:
    """Handles the one request of a connection."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS_MAX):
            head = await reader.readuntil(b"\r\n\r\n")
        method, path, *_ = head.decode("latin-1").split(" ")
        if method != "GET":
            send(writer, HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"GET only\n")
        elif path == "/events":
            await send_events(state, writer)
        elif path == "/map":
            send(writer, HTTPStatus.OK, "application/json", json.dumps(country()).encode())
        elif path in FILES:
            name, content_type = FILES[path]
            send(writer, HTTPStatus.OK, content_type, (PAGE / name).read_bytes())
        else:
            send(writer, HTTPStatus.NOT_FOUND, "text/plain", b"not found\n")
        await writer.drain()
    except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
        pass  # the browser disconnected, or the request is invalid
    finally:
        writer.close()


async def send_events(state: FleetState, writer: StreamWriter) -> None:
    """Sends changes several times a second; a slow browser gets fewer frames, not a queue."""
    head(writer, HTTPStatus.OK, "text/event-stream", "Cache-Control: no-store")
    known = 0
    while True:
        frame, known = state.since(known), state.change
        writer.write(b"data: " + json.dumps(frame, allow_nan=False).encode() + b"\n\n")
        async with asyncio.timeout(WRITE_SECONDS_MAX):
            await writer.drain()
        await asyncio.sleep(FRAME_SECONDS)


def send(writer: StreamWriter, status: HTTPStatus, content_type: str, body: bytes) -> None:
    head(writer, status, content_type, f"Content-Length: {len(body)}")
    writer.write(body)


def head(writer: StreamWriter, status: HTTPStatus, content_type: str, line: str) -> None:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {content_type}",
        "Connection: close",
        "Content-Security-Policy: default-src 'self'; img-src data:",
        line,
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())


def country() -> dict[str, Any]:
    """Returns the map for the page; points are [lat, lon]."""
    return {
        "border": [pair(it) for it in BORDER],
        "cities": {name: pair(it) for name, it in CITIES.items()},
        "roads": [[pair(CITIES[a]), pair(Road(a, b).bend), pair(CITIES[b])] for a, b in ROADS],
        "zones": [
            {"name": it.name, "center": pair(it.center), "radius_km": it.radius_km} for it in ZONES
        ],
    }


def pair(position: Point) -> list[float]:
    return [round(position.lat, 4), round(position.lon, 4)]
