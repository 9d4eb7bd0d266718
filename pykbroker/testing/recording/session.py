"""Reads and writes recordings: files with one JSON object per frame, in the order of transfer.

The first line has the format, start time and brokers. Other lines are requests or responses:

    {"at": 0.012, "connection": 1, "broker": "kafka:9092", "request": "Metadata", "version": 12,
     "correlation_id": 2, "client_id": "app", "frame": "AAMADAAA…"}
    {"at": 0.014, "connection": 1, "answer": "Metadata", "correlation_id": 2, "frame": "AAAAAg…"}

`frame` is the base64 text of the frame without its size; the other fields are for people and
searches. SASL credentials are not recorded.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of
from pykbroker_protocol.compiler import MalformedMessage, decode
from pykbroker_protocol.frame import (
    RequestHeader,
    body_position,
    read_request_header,
    write_request,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import TextIO

    from pykbroker.testing.recording.relay import Address, Passing

FORMAT: Final = "pykbroker-recording-1"


class NoRecording(ValueError):
    """Raised for a file that is not a recording, with the line number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its response."""

    line: int
    """Line of the request in the file."""
    answered_line: int
    """Line of the response; 0 without a response."""
    connection: int
    broker: Address
    header: RequestHeader
    request: bytes
    answer: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """All exchanges in the order of their requests."""

    upstream: tuple[Address, ...]
    exchanges: tuple[Exchange, ...]


class SessionWriter:
    """Writes each line at once, so that a killed process leaves a complete recording."""

    def __init__(self, file: TextIO, upstream: Iterable[Address]) -> None:
        self._file = file
        self._began = time.monotonic()
        self._write(
            {
                "recording": FORMAT,
                "began": datetime.now(UTC).isoformat(timespec="seconds"),
                "upstream": [address_text(it) for it in upstream],
            }
        )
        self.count = 0

    def add(self, passing: Passing) -> None:
        header = passing.header
        line: dict[str, Any] = {
            "at": round(time.monotonic() - self._began, 4),
            "connection": passing.connection,
        }
        if passing.is_request:
            line |= {
                "broker": address_text(passing.broker),
                "request": api_name(header.api_key),
                "version": header.api_version,
                "correlation_id": header.correlation_id,
                "client_id": header.client_id,
            }
        else:
            line |= {
                "answer": api_name(header.api_key),
                "correlation_id": header.correlation_id,
            }
        frame = without_passwords(passing) if passing.is_request else passing.frame
        self._write({**line, "frame": base64.b64encode(frame).decode()})
        self.count += 1

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()


def read_session(path: Path) -> Session:
    """Reads a recording. Raises NoRecording or OSError."""
    with path.open(encoding="utf-8") as file:
        lines = enumerate(file, start=1)
        try:
            upstream = read_head(next(lines, (1, ""))[1])
            return Session(upstream=upstream, exchanges=tuple(exchanges_in(lines)))
        except UnicodeDecodeError as reason:
            raise NoRecording(f"{path}: {reason}") from reason
        except NoRecording as reason:
            raise NoRecording(f"{path}: {reason}") from reason


def read_head(line: str) -> tuple[Address, ...]:
    try:
        head = json.loads(line)
        name, upstream = head["recording"], tuple(address_of(it) for it in head["upstream"])
    except (ValueError, KeyError, TypeError, AttributeError) as reason:
        raise NoRecording(f"line 1: not the first line of a recording ({reason!r})") from reason
    if name != FORMAT:
        raise NoRecording(f"line 1: format is {name!r}, expected {FORMAT!r}")
    return upstream


def exchanges_in(lines: Iterable[tuple[int, str]]) -> Iterator[Exchange]:
    """Yields exchanges in the order of the requests, including those without a response."""
    pending: dict[tuple[int, int], dict[str, Any]] = {}
    found: list[dict[str, Any]] = []
    for number, line in lines:
        try:
            fields = json.loads(line)
            frame = base64.b64decode(fields["frame"], validate=True)
            key = int(fields["connection"]), int(fields["correlation_id"])
            if "request" in fields:
                pending[key] = {
                    "line": number,
                    "answered_line": 0,
                    "connection": key[0],
                    "broker": address_of(fields["broker"]),
                    "header": read_request_header(frame),
                    "request": frame,
                    "answer": None,
                }
                found.append(pending[key])
            elif key in pending:
                pending.pop(key).update(answer=frame, answered_line=number)
        except (ValueError, KeyError, TypeError, binascii.Error, MalformedMessage) as reason:
            raise NoRecording(f"line {number}: not a recorded frame ({reason!r})") from reason
    return (Exchange(**it) for it in found)


def without_passwords(passing: Passing) -> bytes:
    """Returns the request frame; for SaslAuthenticate without its auth_bytes."""
    header = passing.header
    message_type = request_of(header.api_key)
    if header.api_key != ApiKey.SASL_AUTHENTICATE:
        return passing.frame
    if message_type is None or header.api_version not in message_type.versions:
        return passing.frame[: header.body_position]
    try:
        position = body_position(header, passing.frame, message_type)
        message = decode(message_type, header.api_version, passing.frame, position)
    except MalformedMessage:
        return passing.frame[: header.body_position]
    plain = message.replace(auth_bytes=b"")
    parts = write_request(plain, header.api_version, header.correlation_id, header.client_id)
    return b"".join(parts)


def api_name(api_key: int) -> str:
    if api_key not in set(ApiKey):
        return f"API {api_key}"
    return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))


def address_text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
