"""Recorded frames between a client and a broker, and their decoded fields."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import response_of
from pykbroker_protocol.explain import explain_request, explain_response
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FRAMES_MAX: Final = 2_000
"""Older frames are dropped; most scenarios exchange fewer."""
FRAME_BYTES_MAX: Final = 256 * 1024
"""Only the first bytes of a larger frame are kept."""
BYTES_MAX: Final = 16 * 1024 * 1024
LINES_SHOWN_MAX: Final = 60
LINES_AT_THE_END: Final = 20
"""Of the shown lines; the end contains the fields after long lists, and decoding errors."""
_API_VERSIONS_KNOWN: Final = ApiVersionsRequest.versions.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A request or response recorded by the relay."""

    at_seconds: float
    connection: int
    api_key: int
    version: int
    correlation_id: int
    is_request: bool
    size: int
    content: bytes
    """Bytes after the size prefix, cut to FRAME_BYTES_MAX."""
    client_id: str | None = None
    note: str = ""

    @property
    def api(self) -> str:
        try:
            name = ApiKey(self.api_key).name
        except ValueError:
            return f"API {self.api_key}"
        return "".join(word.capitalize() for word in name.split("_"))

    def headline(self) -> str:
        arrow = "→" if self.is_request else "←"
        client = f" {self.client_id}" if self.client_id else ""
        note = f" ({self.note})" if self.note else ""
        return (
            f"{self.at_seconds:8.3f} s  #{self.connection} {arrow} {self.api} v{self.version}"
            f" {self.correlation_id}{client}, {self.size} bytes{note}"
        )

    def explanation(self) -> tuple[str, ...]:
        """Returns the decoded fields, one per line, or a note if the frame was cut."""
        if len(self.content) < self.size:
            return (f"not decoded: only {len(self.content)} of {self.size} bytes are recorded",)
        if self.is_request:
            explained = explain_request(self.content)
        else:
            explained = explain_response(self.content, self.api_key, self.version)
        return tuple(_without_the_middle(str(explained).splitlines()[1:]))

    def fault(self) -> str | None:
        """Returns the error of a malformed frame, or None. Unknown APIs are not checked."""
        if len(self.content) < self.size or self.note or self._is_newer_api_versions():
            return None
        if response_of(self.api_key) is None:
            return None
        if self.is_request:
            explained = explain_request(self.content)
        else:
            explained = explain_response(self.content, self.api_key, self.version)
        return None if explained.fault is None else f"{self.headline()}: {explained.fault}"

    def _is_newer_api_versions(self) -> bool:
        """Returns whether this is an ApiVersions request in a version unknown here (KIP-511)."""
        return self.api_key == ApiKey.API_VERSIONS and self.version > _API_VERSIONS_KNOWN


def _without_the_middle(lines: Sequence[str]) -> Sequence[str]:
    omitted = len(lines) - LINES_SHOWN_MAX
    if omitted <= 0:
        return lines
    first, last = lines[: LINES_SHOWN_MAX - LINES_AT_THE_END], lines[-LINES_AT_THE_END:]
    return [*first, f"… {omitted} lines omitted", *last]


@dataclass(slots=True)
class Recording:
    """The last frames of a cell, in the order in which the relay forwarded them."""

    started: float = field(default_factory=time.monotonic)
    frames: deque[Frame] = field(default_factory=deque)
    count: int = 0
    requests: Counter[int] = field(default_factory=Counter)
    """Number of requests by API key, including those that are no longer kept."""
    _bytes: int = 0

    def keep(self, frame: Frame) -> None:
        self.count += 1
        if frame.is_request:
            self.requests[frame.api_key] += 1
        self.frames.append(frame)
        self._bytes += len(frame.content)
        while len(self.frames) > FRAMES_MAX or self._bytes > BYTES_MAX:
            self._bytes -= len(self.frames.popleft().content)

    def now(self) -> float:
        return time.monotonic() - self.started

    def all(self) -> list[Frame]:
        """Returns a copy; the relay's thread may still add frames."""
        return list(self.frames)

    def of(self, api: ApiKey, *, requests: bool = True) -> list[Frame]:
        return [it for it in tuple(self.frames) if it.api_key == api and it.is_request == requests]


def malformed(frames: Iterable[Frame]) -> list[str]:
    """Returns the errors of all frames that cannot be decoded in their version."""
    return [fault for frame in tuple(frames) if (fault := frame.fault()) is not None]
