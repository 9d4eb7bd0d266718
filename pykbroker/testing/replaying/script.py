"""Selects the response to a request from a recording and collects differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.testing.recording.session import api_name
from pykbroker.testing.replaying.differences import (
    Difference,
    Differences,
    ReplayDiffers,
    Unrecorded,
)
from pykbroker.testing.replaying.fetch_replay import FetchReplay
from pykbroker.testing.replaying.offset_commits import OffsetCommits
from pykbroker.testing.replaying.partition_answers import PartitionAnswers
from pykbroker.testing.replaying.produced_records import ProducedRecords
from pykbroker.testing.replaying.recorded_exchanges import Recorded, RecordedExchanges
from pykbroker.testing.replaying.request_matching import comparable
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

TIME_DEPENDENT = frozenset(
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
"""APIs whose number of requests depends on time and connections."""

TOO_NEW_VERSION = 0
"""The version of the error response of ApiVersions."""


class Reply(NamedTuple):
    answer: Message | None
    version: int
    """The version of the response."""
    is_empty_fetch: bool = False
    """True if a later attempt can return records."""
    lines_between: tuple[int, int] = (0, 0)
    """Lines of the recording between which other requests were sent before this response."""


class Script:
    """One recorded session and the state of its replay."""

    def __init__(self, session: Session, file: str) -> None:
        self.file = file
        self.differences = Differences()
        self.names = TopicNames()
        self.exchanges = RecordedExchanges()
        self.parts = PartitionAnswers()
        self.written = ProducedRecords(self.names, self.differences)
        self.fetched = FetchReplay(self.names, self.written)
        self.commits = OffsetCommits(self.names, self.fetched)
        self._versions: dict[int, set[int]] = {}
        self._to_come: set[int] = set()
        """Lines of recorded requests that have not been received."""
        readable = [it for it in map(read_exchange, session.exchanges) if it is not None]
        for recorded in readable:
            self.names.add(recorded.answer)
        for recorded in readable:
            self._add_produced(recorded)
        for recorded in readable:
            self._add(recorded)

    def _add_produced(self, recorded: Recorded) -> None:
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
            if recorded.exchange.header.api_key not in TIME_DEPENDENT:
                self._to_come.add(recorded.exchange.line)

    def outstanding(self, lines: tuple[int, int]) -> set[int]:
        """Requests between two lines of the recording that clients have not sent yet.

        A client that gets a response too early may continue before it has sent these requests.
        """
        requested, answered = lines
        return {line for line in self._to_come if requested < line < answered}

    def give_up(self, lines: set[int]) -> None:
        """Stops waiting for these requests. They are still answered if they arrive."""
        self._to_come -= lines

    def reply(self, header: RequestHeader, frame: bytes) -> Reply:
        """Returns the reply to a request. Raises Unrecorded or MalformedMessage."""
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
        """Returns the recorded response, or one that is composed from recorded responses."""
        recorded = self.exchanges.find(header, request)
        if recorded is not None:
            self._to_come.discard(recorded.exchange.line)
            answer = with_member_id_of(recorded.answer, request)
            lines_between = recorded.exchange.line, recorded.exchange.answered_line
            return Reply(answer, answered_in(recorded), lines_between=lines_between)
        composed: Message | None
        match header.api_key:
            case ApiKey.METADATA:
                composed = self.names.metadata(request)
            case ApiKey.OFFSET_COMMIT:
                composed = self.commits.answer(request)
            case ApiKey.HEARTBEAT:
                composed = HeartbeatResponse(error_code=ErrorCode.NONE)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                composed = self.exchanges.heartbeat_response(request)
            case _:
                composed = self.parts.answer(header, request)
        if composed is None:
            raise self.exchanges.unrecorded(header, request)
        return Reply(composed, header.api_version)

    def _unknown_version(self, header: RequestHeader, versions: list[int]) -> Unrecorded:
        name = f"{api_name(header.api_key)} v{header.api_version} of client {header.client_id!r}"
        if not versions:
            return Unrecorded(Difference(what=f"{name}: no such request was recorded"))
        known = ", ".join(f"v{it}" for it in versions)
        return Unrecorded(Difference(what=f"{name}: recorded in {known}"))

    def check(self) -> None:
        """Raises ReplayDiffers for unrecorded requests and for missing changes."""
        missing = (*self.exchanges.missing(), *self.written.missing())
        if found := self.differences.together_with(missing):
            raise ReplayDiffers(self.file, found)


def read_exchange(exchange: Exchange) -> Recorded | None:
    """Decodes an exchange. Returns None for an unknown API or version, or a malformed frame."""
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
    like = comparable(request, header.api_version)
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
    """The version of the response. Only errors of ApiVersions differ from the request (KIP-511)."""
    header, answer = recorded.exchange.header, recorded.answer
    if isinstance(answer, ApiVersionsResponse) and answer.error_code:
        return TOO_NEW_VERSION
    return header.api_version


def with_member_id_of(answer: Any, request: Any) -> Message | None:
    """Returns the response with the member id of the request, if the client generated one."""
    if request.api == ApiKey.CONSUMER_GROUP_HEARTBEAT and answer.member_id and request.member_id:
        named: Message = answer.replace(member_id=request.member_id)
        return named
    found: Message | None = answer
    return found
