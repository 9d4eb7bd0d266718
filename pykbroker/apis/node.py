"""The context of request handlers: the parts of the node, and the request being served."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.offer import EVERYTHING
from pykbroker.controller_access import ForwardedClient
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from pykbroker.apis.fetch_sessions import FetchSessions
    from pykbroker.apis.offer import Offer
    from pykbroker.apis.peer import Peer
    from pykbroker.apis.producer_ids import ProducerIds
    from pykbroker.clock import Clock, Randomness
    from pykbroker.controller_access import ControllerAccess, RequestForwarding
    from pykbroker.coordinators.group_coordinator import GroupCoordinator
    from pykbroker.coordinators.transaction_coordinator import TransactionCoordinator
    from pykbroker.generation import Generation
    from pykbroker.metadata.image import ClusterImage
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker.settings import Settings


class Endpoint(NamedTuple):
    """The address of a broker on the listener that the client uses."""

    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True, kw_only=True)
class Node:
    """The parts of a broker that request handlers use."""

    node_id: int
    settings: Settings
    clock: Clock
    controller: ControllerAccess
    image: ClusterImage
    """Committed metadata."""
    partitions: Partitions
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    randomness: Randomness
    generation: Generation
    offer: Offer = EVERYTHING
    forward: RequestForwarding | None = None
    """Set if the controllers are other processes, which then serve administrative requests."""
    refused_topics: dict[str, str | None] = field(default_factory=dict)
    """Internal topics that could not be created, with the reason logged last."""

    def configure(self, settings: Settings) -> None:
        self.settings = settings

    def error_without_replica(self, topic: str, index: int) -> ErrorCode:
        """Returns the error for a partition of which this broker has no replica.

        A client with old metadata may send requests to a broker whose replica was removed.
        """
        found = self.image.topics.get(topic)
        if (
            found is not None
            and 0 <= index < len(found.partitions)
            and self.node_id not in found.partitions[index].replicas
        ):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def leader_of(self, topic: str, index: int) -> tuple[int, int] | None:
        """Returns leader and leader epoch of a partition, for clients with old metadata."""
        partition = self.partitions.get(topic, index)
        if partition is not None:
            return partition.leadership.leader, partition.leadership.leader_epoch
        found = self.image.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        image = found.partitions[index]
        return image.leader, image.leader_epoch

    def new_uuid(self) -> UUID:
        from uuid import UUID  # noqa: PLC0415 - a slow import that a start does not need

        return UUID(bytes=self.randomness.uuid_bytes())

    def new_uuid_text(self) -> str:
        """Returns a random id in Kafka's format: base64 without padding."""
        return urlsafe_b64encode(self.randomness.uuid_bytes()).decode().rstrip("=")


class Call:
    """The context of one request: its version, its sender and the node that serves it."""

    __slots__ = ("client_id", "node", "peer", "version")

    def __init__(self, node: Node, version: int, client_id: str | None, peer: Peer) -> None:
        self.node = node
        self.version = version
        self.client_id = client_id
        self.peer = peer

    @property
    def client(self) -> ForwardedClient:
        return ForwardedClient(self.client_id, self.peer.host)

    @property
    def client_host(self) -> str:
        """The host in the format of Kafka's tools."""
        return f"/{self.peer.host}"

    def endpoints_of(self, node_ids: Iterable[int]) -> list[Endpoint]:
        """Returns the endpoints of brokers that have the listener of the client, sorted by id."""
        brokers, listener = self.node.image.brokers, self.peer.listener
        return [
            Endpoint(node_id, *brokers[node_id].listeners[listener], brokers[node_id].rack)
            for node_id in sorted(node_ids)
            if node_id in brokers and listener in brokers[node_id].listeners
        ]
