"""One of the two clusters that are asked, and the targets that have been made in it."""

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
ANSWER_SECONDS_MAX = 2.0
"""So long the other questions wait for an answer."""
LATE_SECONDS_MAX = 4.0
"""So long an answer may take; usually it is looked for again much later, at the end."""
LOOK_SECONDS_MAX = 0.1
COORDINATOR_REQUESTS: tuple[tuple[Message, int], ...] = (
    (FindCoordinatorRequest(key="compat", key_type=0), 2),
    (FindCoordinatorRequest(key="compat", key_type=1), 2),
    (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), 1),
)
TOPIC_ID_VERSION_MIN = 10
"""From this version on Metadata tells the ids of topics."""
METADATA_VERSION_MAX = 12
CLOSED = "the connection is closed"
SILENT = "no answer in time"


class PendingResponse(NamedTuple):
    """An answer that has not come yet."""

    wire: Wire
    request: type[Message]
    version: int
    until: float
    """By then, on the monotonic clock, it had to come."""


class ProbedBroker:
    """Asks one cluster, and makes the topics and groups of which the questions speak."""

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
        """How many topics there are, Kafka's own not counted."""
        answer = self.wire.ask(MetadataRequest(topics=None), 1)
        return sum(not it.is_internal for it in answer.topics)

    def create_targets(self, names: Iterable[str]) -> None:
        """All at once, which is quicker."""
        topics = {name: f"compat-{self.word}-{name}" for name in names}
        self.reference.create_many_topics(tuple(topics.values()), {"retention.ms": "-1"})
        for name, topic in topics.items():
            topic_id = self._topic_id(topic)
            self.ids[topic_id] = f"id of {topic}"
            self.targets[name] = RequestTargets(
                topic=topic, topic_id=topic_id, group=f"{topic}-group", new_name=f"{topic}-new"
            )

    def answer(self, probe: ProbeRequest) -> Normalized | PendingResponse:
        """An answer in plain words, or how there was none."""
        return self._outcome(
            lambda: self.wire.send(probe.request, probe.version),
            type(probe.request),
            probe.version,
        )

    def answer_to_truncated(
        self, name: str, cut: int, request: type[Message], version: int
    ) -> Normalized | PendingResponse:
        """What comes when the last bytes of a sensible request are missing."""
        frame = self._typical_frame(name, request, version)
        if len(frame) <= cut + 10:
            return None
        return self._outcome(lambda: self.wire.send_frame(frame[:-cut]), request, version)

    def answer_to_unserved(
        self, name: str, request: type[Message], version: int
    ) -> Normalized | PendingResponse:
        """What comes when a version is asked that is not served, in the words of the nearest."""
        nearest = min(max(version, request.versions.first), request.versions.last)
        frame = bytearray(self._typical_frame(name, request, nearest))
        frame[2:4] = struct.pack(">h", version)
        answered = 0 if request.api == ApiKey.API_VERSIONS else nearest  # by KIP-511
        return self._outcome(lambda: self.wire.send_frame(bytes(frame)), request, answered)

    def resolved(self, answer: Normalized | PendingResponse) -> Normalized:
        """What has become of an answer that was late."""
        if not isinstance(answer, PendingResponse):
            return answer
        left = answer.until - time.monotonic()
        answer.wire.socket.settimeout(max(left, LOOK_SECONDS_MAX))
        try:
            return self._received(answer.wire, answer.request, answer.version)
        except TimeoutError:
            return SILENT
        except Closed:
            return CLOSED
        finally:
            answer.wire.close()

    def _typical_frame(self, name: str, request: type[Message], version: int) -> bytes:
        asked = next(iter(probe_requests(request, version, self.targets[name])))
        return b"".join(write_request(asked.request, version, 7, "test"))

    def _outcome(
        self, send: Callable[[], None], request: type[Message], version: int
    ) -> Normalized | PendingResponse:
        try:
            send()
            return self._received(self.wire, request, version)
        except TimeoutError:
            late, self.wire = self.wire, self._connect()
            until_then = time.monotonic() + LATE_SECONDS_MAX - ANSWER_SECONDS_MAX
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
            return f"an answer that cannot be read: {type(error).__name__}"

    def _reconnect(self) -> None:
        self.wire.close()
        self.wire = self._connect()

    def _connect(self) -> Wire:
        wire = Wire(self.port, host=self.host)
        wire.socket.settimeout(ANSWER_SECONDS_MAX)
        return wire

    def _served(self) -> Served:
        answer = self.wire.ask(ApiVersionsRequest(), 0)
        return {it.api_key: (it.min_version, it.max_version) for it in answer.api_keys}

    def _topic_id(self, topic: str) -> bytes:
        """Zero where the cluster gives topics no ids, or tells none."""
        version = min(self.served[ApiKey.METADATA][1], METADATA_VERSION_MAX)
        if version < TOPIC_ID_VERSION_MIN:
            return bytes(16)
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        return bytes(self.wire.ask(asked, version).topics[0].topic_id)

    def _wait_for_coordinators(self) -> None:
        """A new cluster makes its internal topics when somebody first asks for them."""
        for asked, version in COORDINATOR_REQUESTS:
            until(
                partial(self._has_an_answer, asked, version), f"{type(asked).__name__} is answered"
            )

    def _has_an_answer(self, asked: Message, version: int) -> bool:
        return bool(self.wire.ask(asked, version).error_code == ErrorCode.NONE)
