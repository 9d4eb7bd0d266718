"""Decides how a request is answered from a recording, and keeps what was not as recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.testing.recording.session import api_name
from pykbroker.testing.replaying.differences import (
    Difference,
    Differences,
    ReplayDiffers,
    Unrecorded,
)
from pykbroker.testing.replaying.fetch_replay import Fetched
from pykbroker.testing.replaying.offset_commits import Commits
from pykbroker.testing.replaying.partition_answers import Parts
from pykbroker.testing.replaying.produced_records import Written
from pykbroker.testing.replaying.recorded_exchanges import Exchanges, Recorded
from pykbroker.testing.replaying.request_matching import likeness
from pykbroker.testing.replaying.topic_names import TopicNames
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of, response_of
from pykbroker_protocol.compiler import MalformedMessage, decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import body_position, read_response_header
from pykbroker_protocol.messages.api_versions import ApiVersionsResponse
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from pykbroker.testing.recording.session import Exchange, Session
    from pykbroker_protocol.frame import RequestHeader
    from pykbroker_protocol.message import Message

BY_THE_CLOCK = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.HEARTBEAT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.PUSH_TELEMETRY,
    }
)
"""How often these come says nothing of what clients have done: connections are made as needed."""

TOO_NEW_VERSION = 0
"""In which ApiVersions is refused."""


class Reply(NamedTuple):
    answer: Message | None
    version: int
    """In which it is written."""
    is_empty_fetch: bool = False
    """There may be more if one waits."""
    meanwhile: tuple[int, int] = (0, 0)
    """Between which lines of the recording others asked, while this was on its way."""


class Script:
    """One recorded session, played to whoever comes."""

    def __init__(self, session: Session, file: str) -> None:
        self.file = file
        self.differences = Differences()
        self.names = TopicNames()
        self.exchanges = Exchanges()
        self.parts = Parts()
        self.written = Written(self.names, self.differences)
        self.fetched = Fetched(self.names, self.written)
        self.commits = Commits(self.names, self.fetched)
        self._versions: dict[int, set[int]] = {}
        self._to_come: set[int] = set()
        """Lines of requests that were recorded and have not come."""
        readable = [it for it in map(read_exchange, session.exchanges) if it is not None]
        for recorded in readable:
            self.names.learn(recorded.answer)
        for recorded in readable:
            self._add_what_was_written(recorded)
        for recorded in readable:
            self._add(recorded)

    def _add_what_was_written(self, recorded: Recorded) -> None:
        header = recorded.exchange.header
        self._versions.setdefault(header.api_key, set()).add(header.api_version)
        if header.api_key == ApiKey.PRODUCE:
            self.written.add(recorded)

    def _add(self, recorded: Recorded) -> None:
        match recorded.exchange.header.api_key:
            case ApiKey.FETCH:
                self.fetched.add(recorded)
            case ApiKey.OFFSET_COMMIT:
                self.commits.add(recorded)
        if recorded.answer is not None:
            self.exchanges.add(recorded)
            self.parts.add(recorded)
            if recorded.exchange.header.api_key not in BY_THE_CLOCK:
                self._to_come.add(recorded.exchange.line)

    def still_to_come(self, lines: tuple[int, int]) -> set[int]:
        """What clients asked while an answer was on its way, and have not asked yet.

        A client that hears too early may go on before it has asked for all that it wants to know.
        """
        asked, answered = lines
        return {line for line in self._to_come if asked < line < answered}

    def give_up(self, lines: set[int]) -> None:
        """Nobody waits for them any more; they are answered if they do come."""
        self._to_come -= lines

    def reply(self, header: RequestHeader, frame: bytes) -> Reply:
        """Raises Unrecorded, or MalformedMessage."""
        message_type = request_of(header.api_key)
        versions = self._versions.get(header.api_key, set())
        if header.api_key == ApiKey.HEARTBEAT:
            versions = versions | set(HeartbeatRequest.versions)
        if header.api_version not in versions or message_type is None:
            raise self._unknown_version(header, sorted(versions))
        position = body_position(header, frame, message_type)
        request: Any = decode(message_type, header.api_version, frame, position)
        version = header.api_version
        if header.api_key == ApiKey.PRODUCE:
            return Reply(self.written.answer(header, request), version)
        if header.api_key == ApiKey.FETCH:
            fetched, has_any = self.fetched.answer(header, request)
            return Reply(fetched, version, is_empty_fetch=not has_any)
        return self._exchanged(header, request)

    def _exchanged(self, header: RequestHeader, request: Any) -> Reply:
        """As it was answered, or put together from what was."""
        recorded = self.exchanges.find(header, request)
        if recorded is not None:
            self._to_come.discard(recorded.exchange.line)
            answer = with_own_ids(recorded.answer, request)
            meanwhile = recorded.exchange.line, recorded.exchange.answered_line
            return Reply(answer, answered_in(recorded), meanwhile=meanwhile)
        made_up: Message | None
        match header.api_key:
            case ApiKey.METADATA:
                made_up = self.names.metadata(request)
            case ApiKey.OFFSET_COMMIT:
                made_up = self.commits.answer(request)
            case ApiKey.HEARTBEAT:
                made_up = HeartbeatResponse(error_code=ErrorCode.NONE)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                made_up = self.exchanges.nothing_new(request)
            case _:
                made_up = self.parts.answer(header, request)
        if made_up is None:
            raise self.exchanges.unrecorded(header, request)
        return Reply(made_up, header.api_version)

    def _unknown_version(self, header: RequestHeader, versions: list[int]) -> Unrecorded:
        name = f"{api_name(header.api_key)} v{header.api_version} of client {header.client_id!r}"
        if not versions:
            return Unrecorded(Difference(what=f"{name}: no such request was recorded"))
        told = ", ".join(f"v{it}" for it in versions)
        return Unrecorded(Difference(what=f"{name}: recorded in {told}"))

    def check(self) -> None:
        """Raises ReplayDiffers if anything was asked that was not recorded, or not done."""
        not_done = (*self.exchanges.not_done(), *self.written.not_done())
        if found := self.differences.together_with(not_done):
            raise ReplayDiffers(self.file, found)


def read_exchange(exchange: Exchange) -> Recorded | None:
    """None if it is of an API or a version that nobody here can read."""
    header = exchange.header
    request_type, response_type = request_of(header.api_key), response_of(header.api_key)
    if request_type is None or response_type is None:
        return None
    if header.api_version not in request_type.versions:
        return None
    try:
        position = body_position(header, exchange.request, request_type)
        request = decode(request_type, header.api_version, exchange.request, position)
        answer = None
        if exchange.answer is not None:
            answer = read_answer(response_type, header.api_version, exchange.answer)
    except MalformedMessage:
        return None
    like = likeness(request, header.api_version)
    return Recorded(exchange=exchange, request=request, answer=answer, like=like)


def read_answer(response_type: type[Message], version: int, frame: bytes) -> Message:
    _, position = read_response_header(frame, response_type, version)
    try:
        return decode(response_type, version, frame, position)
    except MalformedMessage:
        if response_type.api != ApiKey.API_VERSIONS:
            raise
        return decode(response_type, TOO_NEW_VERSION, frame, position)


def answered_in(recorded: Recorded) -> int:
    """Only the refusal of ApiVersions is in another version than its request (KIP-511)."""
    header, answer = recorded.exchange.header, recorded.answer
    if isinstance(answer, ApiVersionsResponse) and answer.error_code:
        return TOO_NEW_VERSION
    return header.api_version


def with_own_ids(answer: Any, request: Any) -> Message | None:
    """A member that has named itself is called by that name."""
    if request.api == ApiKey.CONSUMER_GROUP_HEARTBEAT and answer.member_id and request.member_id:
        named: Message = answer.replace(member_id=request.member_id)
        return named
    found: Message | None = answer
    return found
