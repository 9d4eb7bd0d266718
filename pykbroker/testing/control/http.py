"""The part of HTTP/1.1 that the control port needs: one JSON request and response per connection.

Malformed, oversized and slow requests are rejected, and requests that a web page could send: a
browser on this machine can be made to send requests to any local port.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})

REASONS: Final = {
    200: "OK",
    201: "Created",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpError(Exception):
    """An error response: a status and a message."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


class PeerGone(Exception):
    """Raised if the connection ends before the request is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    method: str
    path: tuple[str, ...]
    """The segments of the path."""
    query: Mapping[str, str] = field(default_factory=dict)
    document: Any = None
    """The JSON body; None without a body."""


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest:
    """Reads a request. Raises HttpError or PeerGone."""
    lines = (await read_head(reader)).split("\r\n")
    method, target = read_request_line(lines[0])
    headers = read_headers(lines[1:])
    reject_web_pages(headers)
    size = body_bytes(headers)
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await read_exactly(reader, size)
    path, _, query = target.partition("?")
    return HttpRequest(
        method=method,
        path=tuple(unquote(word) for word in path.split("/") if word),
        query=dict(parse_qsl(query, keep_blank_values=True)),
        document=read_document(body),
    )


async def read_head(reader: asyncio.StreamReader) -> str:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise HttpError(431, f"request headers larger than {HEAD_BYTES_MAX} bytes") from None
    except (asyncio.IncompleteReadError, ConnectionError) as gone:
        raise PeerGone from gone
    return head[:-4].decode("latin-1")


def read_request_line(line: str) -> tuple[str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or not parts[1].startswith("/") or not parts[2].startswith("HTTP/1."):
        raise HttpError(400, "not an HTTP/1.1 request")
    return parts[0], parts[1]


def read_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise HttpError(400, f"malformed or repeated header: {line[:80]!r}")
        headers[name.lower()] = value.strip()
    return headers


def reject_web_pages(headers: Mapping[str, str]) -> None:
    """Scripts of web pages send an Origin header, or another host name (DNS rebinding)."""
    if "origin" in headers:
        raise HttpError(403, "requests with an Origin header are rejected")
    name = headers.get("host", "localhost").lower()
    host = name if name.endswith("]") else name.rpartition(":")[0] or name
    if host not in LOOPBACK_NAMES:
        raise HttpError(403, f"host must be localhost, not {host!r}")


def body_bytes(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise HttpError(411, "Content-Length is required, Transfer-Encoding is not supported")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdecimal()):
        raise HttpError(400, f"Content-Length {text[:80]!r} is not a number")
    if len(text) > len(str(BODY_BYTES_MAX)) or int(text) > BODY_BYTES_MAX:
        raise HttpError(413, f"body larger than {BODY_BYTES_MAX} bytes")
    return int(text)


async def read_exactly(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError) as gone:
        raise PeerGone from gone


def read_document(body: bytes) -> Any:
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as reason:
        raise HttpError(400, f"the body is not valid JSON: {reason}") from None


def response_bytes(status: int, document: Any) -> bytes:
    """A response that closes the connection."""
    body = json.dumps(document, ensure_ascii=False, indent=2).encode(errors="replace") + b"\n"
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\n"
        "Content-Type: application/json; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
