"""Recorded exchanges, which are found by their requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.recording.session import api_name
from pykbroker.testing.replaying.differences import (
    Difference,
    Unrecorded,
    differing_fields,
    distance,
)
from pykbroker.testing.replaying.request_matching import comparable
from pykbroker.testing.response_errors import errors_in
from pykbroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.testing.recording.session import Exchange
    from pykbroker_protocol.frame import RequestHeader
    from pykbroker_protocol.message import Message

CHANGES: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.END_TXN,
    }
)
"""Requests that must occur exactly as often as recorded. Others can be repeated."""


@dataclass(slots=True, kw_only=True, eq=False)
class Recorded:
    """A decoded exchange."""

    exchange: Exchange
    request: Message
    answer: Message | None
    like: Any
    is_used: bool = False

    @property
    def is_refusal(self) -> bool:
        return self.answer is not None and any(True for _ in errors_in(self.answer))


class RecordedExchanges:
    """Matching requests are answered in recorded order."""

    def __init__(self) -> None:
        self._by_request: dict[tuple[int, int, str], list[Recorded]] = {}
        self._by_api: dict[int, list[Recorded]] = {}

    def add(self, recorded: Recorded) -> None:
        header = recorded.exchange.header
        which = header.api_key, header.api_version, repr(recorded.like)
        self._by_request.setdefault(which, []).append(recorded)
        self._by_api.setdefault(header.api_key, []).append(recorded)

    def find(self, header: RequestHeader, request: Message) -> Recorded | None:
        like = repr(comparable(request, header.api_version))
        matching = self._by_request.get((header.api_key, header.api_version, like), [])
        for recorded in matching:
            if not recorded.is_used:
                recorded.is_used = True
                return recorded
        if header.api_key in CHANGES or not matching:
            return None
        return next((it for it in reversed(matching) if not it.is_refusal), matching[-1])

    def heartbeat_response(self, heartbeat: Any) -> Message | None:
        """The response to a heartbeat of a consumer group member without an assignment change."""
        known = self._by_api.get(ApiKey.CONSUMER_GROUP_HEARTBEAT, [])
        answers: list[Any] = [it.answer for it in known if not it.is_refusal]
        if heartbeat.member_epoch <= 0 or not answers:
            return None
        quiet: Message = answers[-1].replace(
            member_id=heartbeat.member_id, member_epoch=heartbeat.member_epoch, assignment=None
        )
        return quiet

    def unrecorded(self, header: RequestHeader, request: Message) -> Unrecorded:
        """Returns the difference from the most similar recorded request."""
        name = f"{api_name(header.api_key)} v{header.api_version} of client {header.client_id!r}"
        known = self._by_api.get(header.api_key, [])
        same_version = [it for it in known if it.exchange.header.api_version == header.api_version]
        if not known:
            return Unrecorded(Difference(what=f"{name}: no such request was recorded"))
        if not same_version:
            versions = ", ".join(sorted({f"v{it.exchange.header.api_version}" for it in known}))
            return Unrecorded(Difference(what=f"{name}: it was recorded in {versions}"))
        like = comparable(request, header.api_version)
        nearest = min(same_version, key=lambda it: distance(it.like, like))
        fields = differing_fields(nearest.like, like)
        line = f"line {nearest.exchange.line}"
        if not fields:
            return Unrecorded(Difference(what=f"{name}: sent more often than recorded ({line})"))
        return Unrecorded(Difference(what=f"{name} differs from {line}:", fields=fields))

    def missing(self) -> Iterator[Difference]:
        """Yields recorded changes that no client requested."""
        for api_key in sorted(CHANGES & set(self._by_api)):
            for recorded in self._by_api[api_key]:
                if not recorded.is_used:
                    line = recorded.exchange.line
                    what = f"{api_name(api_key)} of line {line} is missing"
                    yield Difference(what=what)
