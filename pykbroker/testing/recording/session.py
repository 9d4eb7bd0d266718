"""A recorded session as a file: JSON lines, one for each frame, in the order in which they passed.

The first line names the format, when it began and where. Then a line is a request or an answer:

    {"at": 0.012, "connection": 1, "broker": "kafka:9092", "request": "Metadata", "version": 12,
     "correlation_id": 2, "client_id": "app", "frame": "AAMADAAA…"}
    {"at": 0.014, "connection": 1, "answer": "Metadata", "correlation_id": 2, "frame": "AAAAAg…"}

`frame` is base64 of all that travels behind the frame's size; what stands before it is there to be
read and searched. Passwords of SASL are not written down.
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
    """The file is not what a recorder wrote; the text says at which line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and what was answered to it."""

    line: int
    """Of the request, in the file."""
    answered_line: int
    """Where the answer stands, after all that came before it; 0 if there is none."""
    connection: int
    broker: Address
    header: RequestHeader
    request: bytes
    answer: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """All exchanges, in the order in which they were asked."""

    upstream: tuple[Address, ...]
    exchanges: tuple[Exchange, ...]


class SessionWriter:
    """Each line is written at once, so that what was recorded survives whatever ends it."""

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
        told: dict[str, Any] = {
            "at": round(time.monotonic() - self._began, 4),
            "connection": passing.connection,
        }
        if passing.is_request:
            told |= {
                "broker": address_text(passing.broker),
                "request": api_name(header.api_key),
                "version": header.api_version,
                "correlation_id": header.correlation_id,
                "client_id": header.client_id,
            }
        else:
            told |= {
                "answer": api_name(header.api_key),
                "correlation_id": header.correlation_id,
            }
        frame = without_passwords(passing) if passing.is_request else passing.frame
        self._write({**told, "frame": base64.b64encode(frame).decode()})
        self.count += 1

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()


def read_session(path: Path) -> Session:
    """Raises NoRecording, or OSError."""
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
        raise NoRecording(f"line 1: not the head of a recording ({reason!r})") from reason
    if name != FORMAT:
        raise NoRecording(f"line 1: this is {name!r}, not {FORMAT!r}")
    return upstream


def exchanges_in(lines: Iterable[tuple[int, str]]) -> Iterator[Exchange]:
    """In the order of the requests; those without an answer too."""
    asked: dict[tuple[int, int], dict[str, Any]] = {}
    found: list[dict[str, Any]] = []
    for number, line in lines:
        try:
            told = json.loads(line)
            frame = base64.b64decode(told["frame"], validate=True)
            which = int(told["connection"]), int(told["correlation_id"])
            if "request" in told:
                asked[which] = {
                    "line": number,
                    "answered_line": 0,
                    "connection": which[0],
                    "broker": address_of(told["broker"]),
                    "header": read_request_header(frame),
                    "request": frame,
                    "answer": None,
                }
                found.append(asked[which])
            elif which in asked:
                asked.pop(which).update(answer=frame, answered_line=number)
        except (ValueError, KeyError, TypeError, binascii.Error, MalformedMessage) as reason:
            raise NoRecording(f"line {number}: not a recorded frame ({reason!r})") from reason
    return (Exchange(**it) for it in found)


def without_passwords(passing: Passing) -> bytes:
    """Of SaslAuthenticate, the form alone."""
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
