"""Interface to the active controller: the commands that request handlers use, and their values.

The controller of this process implements it (`controller.controller`). A controller of another
process can implement it by forwarding commands.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeVar

from pykbroker.metadata.features import SUPPORTED_FEATURES
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.late_dataclass import dataclass, field
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.metadata.image import TopicImage
    from pykbroker_protocol.message import Versions

UNSET = -1


class ControllerFailure(Exception):
    """The controller did not execute a command, or its outcome is not known."""

    code: ClassVar[ErrorCode]


def refusal_of(failure: ControllerFailure) -> Refusal:
    """Returns the error that clients receive for a command whose controller failed."""
    return Refusal(failure.code, str(failure))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 stands for the default of the cluster, or of `assignments`."""

    name: str
    partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Sequence[tuple[int, Sequence[int]]] | Mapping[int, Sequence[int]] | None = None
    """Replicas of each partition index, instead of the two numbers."""
    configuration: Mapping[str, str | None] = field(default_factory=dict)

    def assigned(self) -> Sequence[tuple[int, Sequence[int]]]:
        """Returns the assignments in the given order."""
        given = self.assignments or ()
        return given if not hasattr(given, "items") else tuple(given.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """The new partition count of a topic; `assignments` are those of the added partitions."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class ConfigurationOperation(NamedTuple):
    """An operation on one value; the numbers are those of AlterOperation."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChange:
    """Operations on some values of a resource; its other values stay."""

    resource_type: int
    name: str
    operations: Sequence[ConfigurationOperation | tuple[str, int, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationReplacement:
    """All values of a resource; its other values are removed."""

    resource_type: int
    name: str
    values: Sequence[tuple[str, str | None]]


class ElectionType(IntEnum):
    """Which replicas an election can choose."""

    PREFERRED = 0
    """The first replica, if it is in sync."""
    UNCLEAN = 1
    """Any live replica of a partition without a leader, even if it lacks committed records."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReassignment:
    """The target replicas of a partition; None cancels its reassignment."""

    topic: str
    index: int
    replicas: Sequence[int] | None
    may_change_replication_factor: bool = True


class UpgradeType(IntEnum):
    """The direction in which an UpdateFeatures request allows a level to change."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """The new level of a feature."""

    name: str
    level: int
    upgrade_type: UpgradeType


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker that joins the cluster; each start of its process has a new incarnation id."""

    broker_id: int
    incarnation_id: bytes
    listeners: Mapping[str, tuple[str, int]]
    security_protocols: Mapping[str, int] = field(default_factory=dict)
    """Protocols of listeners that are not PLAINTEXT."""
    rack: str | None
    directories: Sequence[bytes]
    features: Mapping[str, tuple[int, int]] = field(default_factory=SUPPORTED_FEATURES.copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """Leader and log of the metadata quorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    log_end_offset: int


Answer = TypeVar("Answer", bound=Message)


class ControllerUnavailable(ControllerFailure):
    """No active controller answered in time, so the request may or may not have been executed."""

    code = ErrorCode.REQUEST_TIMED_OUT


class ControllerChannel(Protocol):
    """Sends Kafka's own requests from this broker to the active controller."""

    async def request(
        self,
        request: Message,
        response_type: type[Answer],
        *,
        version_max: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Finds the active controller, also after it has moved, and retries until the timeout.

        The response can have any other error code. Raises ControllerUnavailable.
        """
        ...

    def versions_of(self, api_key: int) -> Versions | None:
        """Returns the versions that the active controller offers; an empty range for none.

        None while no controller is known.
        """
        ...


class ForwardedClient(NamedTuple):
    """The client whose request is forwarded. Its principal is anonymous (`User:ANONYMOUS`)."""

    client_id: str | None
    host: str
    """The address of the client."""


class RequestForwarding(Protocol):
    """Forwards requests of clients to the active controller of another process (KIP-590)."""

    def versions_of(self, api_key: int) -> Versions | None:
        """Returns the versions that the active controller offers; None while none is known."""
        ...

    async def forward(
        self,
        request: Message,
        response_type: type[Answer],
        *,
        version: int,
        client: ForwardedClient,
    ) -> Answer | ErrorCode:
        """Returns the response of the controller, or the error code of the Envelope.

        Raises ControllerUnavailable.
        """
        ...

    def begin_topic_creation(
        self, topics: Sequence[NewTopic], client: ForwardedClient | None
    ) -> None:
        """Requests topics in the background, as the client or, for None, as this broker.

        Topics that are already being requested are skipped.
        """
        ...


class ControllerAccess(Protocol):
    """Commands to the active controller.

    A refusal is returned, also for a controller that fails or cannot be reached. Commands for
    several objects return one outcome for each object.
    """

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]: ...

    async def delete_topics(
        self, names_or_ids: Sequence[str | bytes]
    ) -> list[TopicImage | Refusal]: ...

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[Refusal | None]: ...

    async def alter_configurations(
        self, changes: Sequence[ConfigurationChange], *, validate_only: bool = False
    ) -> list[Refusal | None]: ...

    async def replace_configurations(
        self, replacements: Sequence[ConfigurationReplacement], *, validate_only: bool = False
    ) -> list[Refusal | None]: ...

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], election_type: ElectionType
    ) -> list[Refusal | None]: ...

    async def reassign_partitions(
        self, reassignments: Sequence[PartitionReassignment]
    ) -> list[Refusal | None]: ...

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> Refusal | None: ...

    async def allocate_producer_ids(self) -> range | Refusal:
        """Returns the next block of producer ids for this node."""

    async def register_broker(self, registration: BrokerRegistration) -> int | Refusal:
        """Returns the broker epoch. The broker is fenced until it is unfenced."""

    async def unregister_broker(self, broker_id: int) -> Refusal | None: ...

    async def describe_quorum(self) -> QuorumStatus | Refusal: ...
