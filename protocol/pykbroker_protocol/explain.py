"""Explains a frame field by field, and a malformed one down to the byte at which it goes wrong.

For the one log line when a frame cannot be read, and for tools that show what lies in a frame.
Credentials are never shown. Import it when there is something to explain: it loads construct.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import record_of, request_of, response_of
from pykbroker_protocol.description import (
    Counted,
    EnoughSeen,
    Misfit,
    Seen,
    Walk,
    read_uvarint,
    walk_through,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.message import Message, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from enum import IntEnum

    from pykbroker_protocol.compiler import Buffer

FIELDS_MAX = 10_000
"""Fields that an explanation shows."""
FIELDS_SEARCHED_MAX = 5_000
"""Fields that are searched for a fault while a broker waits: some forty milliseconds."""
FAULT_TEXT_MAX = 200
VALUE_TEXT_MAX = 80
ELEMENTS_SHOWN_MAX = 16
BYTES_SHOWN_MAX = 16
EXCERPT_BEFORE, EXCERPT_BEHIND = 8, 16

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
    """Where a frame stops being what it claims to be."""

    path: str
    position: int
    expected: str
    found: str
    excerpt: str
    """The bytes around the position in hex, `>` before the one that stands there."""

    def __str__(self) -> str:
        what = f"{self.path} at byte {self.position}" if self.path else f"byte {self.position}"
        return f"{what}: expected {self.expected}, found {self.found} ({self.excerpt})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What lies in a frame; printed, one field a line."""

    title: str
    lines: tuple[str, ...]
    fault: Fault | None = None
    is_whole: bool = True
    """False where there were more fields than an explanation shows."""

    def __str__(self) -> str:
        end = [] if self.is_whole else ["… more fields than are shown"]
        if self.fault is not None:
            end.append(f"MALFORMED {self.fault}")
        return "\n".join((self.title, *self.lines, *end))


def explain_request(frame: Buffer, *, fields_max: int = FIELDS_MAX) -> Explanation:
    """Explain a request, its header included and the size of the frame not."""
    return _explain(frame, _walk_request, "request", fields_max)


def explain_response(
    frame: Buffer, api_key: int, version: int, *, fields_max: int = FIELDS_MAX
) -> Explanation:
    """Explain a response to a request of an API and version: a response does not say it."""

    def walk_response(course: _Course) -> None:
        message = course.versioned(response_of(api_key), version, "api", f"{api_key}")
        flexible = version in message.flexible and api_key != ApiKey.API_VERSIONS
        course.through(ResponseHeader, int(flexible))
        course.through(message, version)

    return _explain(frame, walk_response, "response", fields_max)


def explain_record(value: Buffer, *, fields_max: int = FIELDS_MAX) -> Explanation:
    """Explain the value of a record of the metadata log."""
    return _explain(value, _walk_record, "metadata record", fields_max)


def explain_message(
    message: type[Message],
    version: int,
    buffer: Buffer,
    position: int = 0,
    *,
    fields_max: int = FIELDS_MAX,
) -> Explanation:
    """Explain bytes that are known to hold a message."""

    def walk_message(course: _Course) -> None:
        course.walk.position = position
        course.through(message, version)

    return _explain(buffer, walk_message, "message", fields_max)


def first_fault(frame: Buffer) -> str:
    """One line on where a request goes wrong; it holds nothing secret and fits in a log."""
    explained = explain_request(frame, fields_max=FIELDS_SEARCHED_MAX)
    if explained.fault is not None:
        return shorten(f"{explained.title}, {explained.fault}", FAULT_TEXT_MAX)
    where = "" if explained.is_whole else f" in the first {FIELDS_SEARCHED_MAX} fields"
    return shorten(f"{explained.title}: no fault{where}", FAULT_TEXT_MAX)


class RequestHeader(Message, versions="1-2", flexible="2+"):
    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", never_compact=True)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = int32("0+")


class _Course:
    """A walk through the messages of one frame, and the name of what it met."""

    def __init__(self, walk: Walk, title: str) -> None:
        self.walk = walk
        self.title = title
        self.has_secrets = False

    def through(self, message: type[Message], version: int) -> Any:
        return walk_through(message, version, self.walk)

    def versioned(
        self, message: type[Message] | None, version: int, what: str, number: str
    ) -> type[Message]:
        """The message, if the protocol has it in that version."""
        position = self.walk.position
        with self.walk.at(what):
            if message is None:
                self.walk.refuse(position, "a number that is declared", number)
        self.title = f"{message.__name__} version {version}"
        self.has_secrets = message.__name__ in MESSAGES_WITH_SECRETS
        with self.walk.at("version"):
            if version not in message.versions:
                self.walk.refuse(position, f"one of {message.versions}", str(version))
        return message


def _walk_request(course: _Course) -> None:
    walk = course.walk
    api_key = int.from_bytes(walk.frame[:2], signed=True)
    version = int.from_bytes(walk.frame[2:4], signed=True)
    if len(walk.frame) < 4:
        course.through(RequestHeader, 1)
    message = course.versioned(request_of(api_key), version, "api", str(api_key))
    course.through(RequestHeader, 2 if version in message.flexible else 1)
    course.through(message, version)


def _walk_record(course: _Course) -> None:
    frame_version = _number(course.walk, "frame_version")
    if frame_version != 1:
        course.walk.refuse(0, "frame version 1", str(frame_version))
    record_type = _number(course.walk, "record_type")
    version = _number(course.walk, "record_version")
    record = course.versioned(record_of(record_type), version, "record_type", str(record_type))
    course.through(record, version)


def _number(walk: Walk, name: str) -> int:
    start = walk.position
    with walk.at(name):
        value = read_uvarint(walk, "an unsigned varint")
        walk.see(start, value)
    return value


def _explain(
    frame: Buffer, steps: Callable[[_Course], None], title: str, fields_max: int
) -> Explanation:
    walk = Walk(frame, fields_max=fields_max)
    course = _Course(walk, title)
    fault, is_whole = None, True
    try:
        steps(course)
        if walk.left and not course.has_secrets:
            with walk.at("(behind the message, ignored)"):
                walk.see(walk.position, walk.frame[walk.position :])
    except Misfit as misfit:
        fault = _fault(misfit, walk.frame, has_secrets=course.has_secrets)
    except EnoughSeen:
        is_whole = False
    lines = tuple(_lines(walk.seen))
    return Explanation(title=course.title, lines=lines, fault=fault, is_whole=is_whole)


def _fault(misfit: Misfit, frame: memoryview, *, has_secrets: bool) -> Fault:
    at = misfit.position
    before = frame[max(0, at - EXCERPT_BEFORE) : at].hex(" ")
    behind = frame[at : at + EXCERPT_BEHIND].hex(" ")
    return Fault(
        path=misfit.path,
        position=at,
        expected=misfit.expected,
        found=misfit.found,
        excerpt="bytes not shown" if has_secrets else f"{before} > {behind or 'end'}".strip(),
    )


def _lines(seen: Iterable[Seen]) -> Iterator[str]:
    last_text = ""
    for position, path, value in seen:
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
        case Counted():
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
    if isinstance(value, bytes):  # what has a fixed number of bytes is a uuid
        return urlsafe_b64encode(value).decode().rstrip("=")
    shown = value[:BYTES_SHOWN_MAX].hex(" ") + " …" * (len(value) > BYTES_SHOWN_MAX)
    return f"{len(value)} byte{'s' * (len(value) != 1)}{':' * bool(shown)} {shown}".rstrip()


def _named(names: type[IntEnum], value: int) -> str:
    with suppress(ValueError):
        return f"{value} ({names(value).name})"
    return str(value)


def shorten(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else text[: length_max - 1] + "…"
