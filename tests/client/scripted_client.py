"""A cluster client whose responses are scripted, on a clock that advances only by sleeping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.address import Address
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.clock import SystemClock, SystemRandomness
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykbroker_protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from pykbroker_protocol.message import Message

TOPIC, TOPIC_ID = "trucks", b"t" * 16


class ManualClock(SystemClock):
    """Advances only when code sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class FixedRandomness(SystemRandomness):
    def __init__(self, fraction: float = 0.0) -> None:
        self._fraction = fraction

    def below(self, bound: int) -> int:
        return int(self._fraction * bound)


def topic_led_by(*leaders: int, error: ErrorCode = ErrorCode.NONE) -> MetadataResponseTopic:
    """A topic with one partition per leader."""
    partitions = [
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=leader,
            replica_nodes=(leader,),
            isr_nodes=(leader,),
        )
        for index, leader in enumerate(leaders)
    ]
    return MetadataResponseTopic(
        error_code=error, name=TOPIC, topic_id=TOPIC_ID, partitions=partitions
    )


class ScriptedClient(ClusterClient):
    """Responds with the next step of a script, or raises it if it is an exception.

    Metadata and FindCoordinator have scripts of their own; their last step is repeated.
    """

    def __init__(
        self,
        *steps: Message | Exception,
        topics: list[MetadataResponseTopic | Exception] | None = None,
        coordinators: tuple[int, ...] = (1,),
    ) -> None:
        self.clock = ManualClock()
        options = ConnectionOptions(clock=self.clock, randomness=FixedRandomness())
        super().__init__([Address("broker", 9092)], options)
        self.requests: list[tuple[Message, int | None]] = []
        self._steps = list(steps)
        self._topics = topics or [topic_led_by(1)]
        self._coordinators = list(coordinators)

    async def request(
        self, request: Message, response_type: Any, *, node_id: int | None = None, **_: Any
    ) -> Any:
        del response_type
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        if isinstance(request, FindCoordinatorRequest):
            return self._coordinator()
        self.requests.append((request, node_id))
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        return step

    @property
    def nodes(self) -> list[int | None]:
        """The node of each request."""
        return [node_id for _, node_id in self.requests]

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        brokers = [MetadataResponseBroker(node_id=it, host=f"b{it}", port=9092) for it in (1, 2)]
        topics: list[MetadataResponseTopic] = []
        if request.topics:
            found = self._topics.pop(0) if len(self._topics) > 1 else self._topics[0]
            if isinstance(found, Exception):
                raise found
            topics = [found]
        return MetadataResponse(brokers=brokers, topics=topics)

    def _coordinator(self) -> FindCoordinatorResponse:
        nodes = self._coordinators
        node_id = nodes.pop(0) if len(nodes) > 1 else nodes[0]
        found = Coordinator(node_id=node_id, host=f"b{node_id}", port=9092, error_code=0)
        return FindCoordinatorResponse(coordinators=[found])
