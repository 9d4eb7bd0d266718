"""One of the two compared clusters, with the topics and groups created in it."""

from __future__ import annotations

import struct
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from compat.probe.normalized import Normalized, normalized
from compat.probe.probe_requests import RequestTargets, probe_requests
from compat.suite.actor import until
from compat.suite.reference_client import ReferenceClient
from compat.wire import Closed, Wire
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import write_request
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from compat.probe.probe_requests import ProbeRequest
    from pykbroker_protocol.message import Message

Address = tuple[str, int]
Served = dict[int, tuple[int, int]]
RESPONSE_SECONDS_MAX = 2.0
"""Time to wait for the response to a compared request before the next one is sent."""
LATE_SECONDS_MAX = 4.0
"""Maximum response time. Late responses are read at the end of the comparison."""
LATE_POLL_SECONDS = 0.1
COORDINATOR_REQUESTS: tuple[tuple[Message, int], ...] = (
    (FindCoordinatorRequest(key="compat", key_type=0), 2),
    (FindCoordinatorRequest(key="compat", key_type=1), 2),
    (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), 1),
)
TOPIC_ID_VERSION_MIN = 10
"""First version of Metadata with topic ids."""
METADATA_VERSION_MAX = 12
CLOSED = "connection closed"
SILENT = "no response in time"


class PendingResponse(NamedTuple):
    """A response that was not received yet."""

    wire: Wire
    request: type[Message]
    version: int
    until: float
    """Deadline on the monotonic clock."""


class ProbedBroker:
    """Sends requests to one cluster and creates the topics and groups they refer to."""

    def __init__(self, address: Address, word: str) -> None:
        self.host, self.port = address
        self.word = word
        self.reference = ReferenceClient(*address)
        self.wire = self._connect()
        self.targets: dict[str, RequestTargets] = {}
        self.ids: dict[bytes, str] = {}
        self.served = self._served()
        self._wait_for_coordinators()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()
        self.reference.close()

    def topic_count(self) -> int:
        """Returns the number of topics without internal ones."""
        response = self.reference.ask(MetadataRequest(topics=None), 1)
        return sum(not it.is_internal for it in response.topics)

    def create_targets(self, names: Iterable[str]) -> None:
        """Creates the topics of several versions in one request."""
        topics = {name: f"compat-{self.word}-{name}" for name in names}
        self.reference.create_many_topics(tuple(topics.values()), {"retention.ms": "-1"})
        for name, topic in topics.items():
            topic_id = self._topic_id(topic)
            self.ids[topic_id] = f"id of {topic}"
            self.targets[name] = RequestTargets(
                topic=topic, topic_id=topic_id, group=f"{topic}-group", new_name=f"{topic}-new"
            )

    def response(self, probe: ProbeRequest) -> Normalized | PendingResponse:
        """Returns the normalized response, or the reason why there is none."""
        return self._outcome(
            lambda: self.wire.send(probe.request, probe.version),
            type(probe.request),
            probe.version,
        )

    def response_to_truncated(
        self, name: str, cut: int, request: type[Message], version: int
    ) -> Normalized | PendingResponse:
        """Returns the response to a typical request without its last bytes."""
        frame = self._typical_frame(name, request, version)
        if len(frame) <= cut + 10:
            return None
        return self._outcome(lambda: self.wire.send_frame(frame[:-cut]), request, version)

    def response_to_unserved(
        self, name: str, request: type[Message], version: int
    ) -> Normalized | PendingResponse:
        """Returns the response to an unsupported version, decoded in the nearest known version."""
        nearest = min(max(version, request.versions.first), request.versions.last)
        frame = bytearray(self._typical_frame(name, request, nearest))
        frame[2:4] = struct.pack(">h", version)
        response_version = 0 if request.api == ApiKey.API_VERSIONS else nearest  # by KIP-511
        return self._outcome(lambda: self.wire.send_frame(bytes(frame)), request, response_version)

    def resolved(self, response: Normalized | PendingResponse) -> Normalized:
        """Reads a late response."""
        if not isinstance(response, PendingResponse):
            return response
        remaining = response.until - time.monotonic()
        response.wire.socket.settimeout(max(remaining, LATE_POLL_SECONDS))
        try:
            return self._received(response.wire, response.request, response.version)
        except TimeoutError:
            return SILENT
        except Closed:
            return CLOSED
        finally:
            response.wire.close()

    def _typical_frame(self, name: str, request: type[Message], version: int) -> bytes:
        typical = next(iter(probe_requests(request, version, self.targets[name])))
        return b"".join(write_request(typical.request, version, 7, "test"))

    def _outcome(
        self, send: Callable[[], None], request: type[Message], version: int
    ) -> Normalized | PendingResponse:
        try:
            send()
            return self._received(self.wire, request, version)
        except TimeoutError:
            late, self.wire = self.wire, self._connect()
            until_then = time.monotonic() + LATE_SECONDS_MAX - RESPONSE_SECONDS_MAX
            return PendingResponse(late, request, version, until_then)
        except Closed:
            self._reconnect()
            return CLOSED

    def _received(self, wire: Wire, request: type[Message], version: int) -> Normalized:
        try:
            return normalized(wire.receive(request, version), self.ids)
        except (MalformedMessage, AssertionError) as error:
            if wire is self.wire:
                self._reconnect()
            return f"malformed response: {type(error).__name__}"

    def _reconnect(self) -> None:
        self.wire.close()
        self.wire = self._connect()

    def _connect(self) -> Wire:
        wire = Wire(self.port, host=self.host)
        wire.socket.settimeout(RESPONSE_SECONDS_MAX)
        return wire

    def _served(self) -> Served:
        response = self.reference.ask(ApiVersionsRequest(), 0)
        return {it.api_key: (it.min_version, it.max_version) for it in response.api_keys}

    def _topic_id(self, topic: str) -> bytes:
        """Returns the topic id; zero if the cluster has no topic ids."""
        version = min(self.served[ApiKey.METADATA][1], METADATA_VERSION_MAX)
        if version < TOPIC_ID_VERSION_MIN:
            return bytes(16)
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        return bytes(self.reference.ask(request, version).topics[0].topic_id)

    def _wait_for_coordinators(self) -> None:
        """Waits until internal topics exist; a new cluster creates them at the first request."""
        for request, version in COORDINATOR_REQUESTS:
            until(partial(self._succeeds, request, version), f"{type(request).__name__} succeeds")

    def _succeeds(self, request: Message, version: int) -> bool:
        return bool(self.reference.ask(request, version).error_code == ErrorCode.NONE)
