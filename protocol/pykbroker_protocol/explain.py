"""Describes a frame field by field and reports the first malformed byte.

Used for the log line about a malformed request and by tools that print frames. Credentials are not
shown. Import it lazily, because it imports construct.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import record_of, request_of, response_of
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.message import Message, int16, int32, string
from pykbroker_protocol.tracing_parser import (
    FieldLimitReached,
    Mismatch,
    StructCount,
    TracedField,
    TracingStream,
    parse_message,
    read_uvarint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from enum import IntEnum

    from pykbroker_protocol.compiler import Buffer

FIELDS_MAX = 10_000
"""Fields that an explanation contains."""
FIELDS_SEARCHED_MAX = 5_000
"""Fields that `first_fault` parses; it blocks the event loop for about forty milliseconds."""
FAULT_TEXT_MAX = 200
VALUE_TEXT_MAX = 80
ELEMENTS_SHOWN_MAX = 16
BYTES_SHOWN_MAX = 16
EXCERPT_BEFORE, EXCERPT_AFTER = 8, 16

SECRET_FIELDS = {
    "auth_bytes",
    "salt",
    "salted_password",
    "stored_key",
    "server_key",
    "token_id",
    "hmac",
}
SECRET_CONFIG_WORDS = ("password", "secret", "jaas", "keystore.key", "certificate")
MESSAGES_WITH_SECRETS = {
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "AlterUserScramCredentialsRequest",
    "AlterConfigsRequest",
    "IncrementalAlterConfigsRequest",
    "UserScramCredentialRecord",
    "DelegationTokenRecord",
    "RemoveDelegationTokenRecord",
    "ConfigRecord",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The first malformed byte of a frame."""

    path: str
    position: int
    expected: str
    found: str
    excerpt: str
    """The bytes around the position in hex, with `>` before the malformed one."""

    def __str__(self) -> str:
        position = f"{self.path} at byte {self.position}" if self.path else f"byte {self.position}"
        return f"{position}: expected {self.expected}, found {self.found} ({self.excerpt})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The content of a frame; `str` returns one line per field."""

    title: str
    lines: tuple[str, ...]
    fault: Fault | None = None
    is_whole: bool = True
    """False if the frame has more than `fields_max` fields."""

    def __str__(self) -> str:
        end = [] if self.is_whole else ["… further fields not shown"]
        if self.fault is not None:
            end.append(f"MALFORMED {self.fault}")
        return "\n".join((self.title, *self.lines, *end))


def explain_request(frame: Buffer, *, fields_max: int = FIELDS_MAX) -> Explanation:
    """Explains a request with its header and without the frame size."""
    return _explain(frame, _parse_request, "request", fields_max)


def explain_response(
    frame: Buffer, api_key: int, version: int, *, fields_max: int = FIELDS_MAX
) -> Explanation:
    """Explains a response; it does not contain the API key and version of its request."""

    def parse_response(trace: _Trace) -> None:
        message = trace.declared(response_of(api_key), version, "api", f"{api_key}")
        flexible = version in message.flexible and api_key != ApiKey.API_VERSIONS
        trace.parse(ResponseHeader, int(flexible))
        trace.parse(message, version)

    return _explain(frame, parse_response, "response", fields_max)


def explain_record(value: Buffer, *, fields_max: int = FIELDS_MAX) -> Explanation:
    """Explains the value of a metadata log record."""
    return _explain(value, _parse_record, "metadata record", fields_max)


def explain_message(
    message: type[Message],
    version: int,
    buffer: Buffer,
    position: int = 0,
    *,
    fields_max: int = FIELDS_MAX,
) -> Explanation:
    """Explains a message without header at a position."""

    def parse_body(trace: _Trace) -> None:
        trace.stream.position = position
        trace.parse(message, version)

    return _explain(buffer, parse_body, "message", fields_max)


def first_fault(frame: Buffer, decoder_error: str = "no fault") -> str:
    """Returns one line for the log about the first malformed byte of a request, without secrets.

    The line contains the error of the decoder only if no malformed byte is found.
    """
    explained = explain_request(frame, fields_max=FIELDS_SEARCHED_MAX)
    if explained.fault is not None:
        return shorten(f"{explained.title}, {explained.fault}", FAULT_TEXT_MAX)
    where = "" if explained.is_whole else f" (not in the first {FIELDS_SEARCHED_MAX} fields)"
    return shorten(f"{explained.title}: {decoder_error}{where}", FAULT_TEXT_MAX)


class RequestHeader(Message, versions="1-2", flexible="2+"):
    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", never_compact=True)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = int32("0+")


class _Trace:
    """The state of parsing one frame: stream, title, and whether the message has secrets."""

    def __init__(self, stream: TracingStream, title: str) -> None:
        self.stream = stream
        self.title = title
        self.has_secrets = False

    def parse(self, message: type[Message], version: int) -> Any:
        return parse_message(message, version, self.stream)

    def declared(
        self, message: type[Message] | None, version: int, what: str, number: str
    ) -> type[Message]:
        """Returns the message if it is declared and has the version; fails otherwise."""
        position = self.stream.position
        with self.stream.at(what):
            if message is None:
                self.stream.fail(position, "a known number", number)
        self.title = f"{message.__name__} version {version}"
        self.has_secrets = message.__name__ in MESSAGES_WITH_SECRETS
        with self.stream.at("version"):
            if version not in message.versions:
                self.stream.fail(position, f"one of {message.versions}", str(version))
        return message


def _parse_request(trace: _Trace) -> None:
    stream = trace.stream
    api_key = int.from_bytes(stream.frame[:2], signed=True)
    version = int.from_bytes(stream.frame[2:4], signed=True)
    if len(stream.frame) < 4:
        trace.parse(RequestHeader, 1)
    message = trace.declared(request_of(api_key), version, "api", str(api_key))
    trace.parse(RequestHeader, 2 if version in message.flexible else 1)
    trace.parse(message, version)


def _parse_record(trace: _Trace) -> None:
    frame_version = _number(trace.stream, "frame_version")
    if frame_version != 1:
        trace.stream.fail(0, "frame version 1", str(frame_version))
    record_type = _number(trace.stream, "record_type")
    version = _number(trace.stream, "record_version")
    record = trace.declared(record_of(record_type), version, "record_type", str(record_type))
    trace.parse(record, version)


def _number(stream: TracingStream, name: str) -> int:
    start = stream.position
    with stream.at(name):
        value = read_uvarint(stream, "an unsigned varint")
        stream.record(start, value)
    return value


def _explain(
    frame: Buffer, steps: Callable[[_Trace], None], title: str, fields_max: int
) -> Explanation:
    stream = TracingStream(frame, fields_max=fields_max)
    trace = _Trace(stream, title)
    fault, is_whole = None, True
    try:
        steps(trace)
        if stream.left and not trace.has_secrets:
            with stream.at("(after the message, ignored)"):
                stream.record(stream.position, stream.frame[stream.position :])
    except Mismatch as mismatch:
        fault = _fault(mismatch, stream.frame, has_secrets=trace.has_secrets)
    except FieldLimitReached:
        is_whole = False
    lines = tuple(_lines(stream.fields))
    return Explanation(title=trace.title, lines=lines, fault=fault, is_whole=is_whole)


def _fault(mismatch: Mismatch, frame: memoryview, *, has_secrets: bool) -> Fault:
    at = mismatch.position
    before = frame[max(0, at - EXCERPT_BEFORE) : at].hex(" ")
    after = frame[at : at + EXCERPT_AFTER].hex(" ")
    return Fault(
        path=mismatch.path,
        position=at,
        expected=mismatch.expected,
        found=mismatch.found,
        excerpt="bytes not shown" if has_secrets else f"{before} > {after or 'end'}".strip(),
    )


def _lines(fields: Iterable[TracedField]) -> Iterator[str]:
    last_text = ""
    for position, path, value in fields:
        name = path.rpartition(".")[2].partition("[")[0]
        is_secret = name in SECRET_FIELDS or (name == "value" and _is_secret_config(last_text))
        yield f"@{position} {path}: {'(not shown)' if is_secret else _text(name, value)}"
        last_text = value if isinstance(value, str) else last_text


def _is_secret_config(name: str) -> bool:
    return any(word in name for word in SECRET_CONFIG_WORDS)


def _text(name: str, value: Any) -> str:
    match value:
        case None:
            return "null"
        case StructCount():
            return f"{value} element{'s' * (value != 1)}"
        case list():
            shown = ", ".join(_text(name, it) for it in value[:ELEMENTS_SHOWN_MAX])
            more = f", … {len(value)} elements" if len(value) > ELEMENTS_SHOWN_MAX else ""
            return f"[{shown}{more}]"
        case bytes() | memoryview():
            return _octets_text(value)
        case int() if name.endswith(("error_code", "api_key")):
            return _named(ErrorCode if name.endswith("error_code") else ApiKey, value)
        case _:
            return shorten(repr(value), VALUE_TEXT_MAX)


def _octets_text(value: bytes | memoryview) -> str:
    if isinstance(value, bytes):  # only UUIDs are parsed to bytes, other fields to views
        return urlsafe_b64encode(value).decode().rstrip("=")
    shown = value[:BYTES_SHOWN_MAX].hex(" ") + " …" * (len(value) > BYTES_SHOWN_MAX)
    return f"{len(value)} byte{'s' * (len(value) != 1)}{':' * bool(shown)} {shown}".rstrip()


def _named(names: type[IntEnum], value: int) -> str:
    with suppress(ValueError):
        return f"{value} ({names(value).name})"
    return str(value)


def shorten(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else text[: length_max - 1] + "…"
