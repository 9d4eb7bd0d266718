"""`ControllerModel`: the active controller of a quorum, with its log in memory.

All controllers of the quorum share one log, so an election needs no votes: `elect` moves the
leadership, and can drop uncommitted records like a leader that lost its quorum.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from pykbroker.controller.configurations import alter_configurations, replace_configurations
from pykbroker.controller.decision import Decision
from pykbroker.controller.elections import elect_leaders
from pykbroker.controller.feature_updates import update_features
from pykbroker.controller.new_partitions import create_partitions
from pykbroker.controller.producer_ids import allocate_producer_ids
from pykbroker.controller.reassignments import reassign_partitions
from pykbroker.controller.topics import TopicRules, create_topics, delete_topics
from pykbroker.controller_access import QuorumStatus
from pykbroker.generators import run_to_end
from pykbroker.metadata.effective_settings import effective_settings
from pykbroker.metadata.features import FEATURES_OF_A_NEW_CLUSTER
from pykbroker.metadata.image import BROKER_RESOURCE, ClusterImage, TopicImage
from pykbroker.metadata.replay import Replay, replay
from pykbroker.metadata.snapshot import decode_snapshot
from pykbroker.settings import load_settings, refuse_topic_overrides
from pykbroker.testing.simulation.controller_model import membership_decisions, replica_decisions
from pykbroker.testing.simulation.controller_model.broker_sessions import (
    Session,
    expired,
)
from pykbroker.testing.simulation.controller_model.model_log import ModelLog
from pykbroker.testing.simulation.controller_model.partition_changes import (
    CLUSTER_WIDE,
    ELIGIBLE_LEADER_REPLICAS,
    MIN_IN_SYNC,
)
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.cluster import FeatureLevelRecord
from pykbroker_protocol.metadata.topics import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pykbroker.clock import Alarm, Clock, Randomness
    from pykbroker.controller_access import (
        BrokerRegistration,
        ConfigurationChange,
        ConfigurationReplacement,
        ElectionType,
        FeatureUpdate,
        NewPartitions,
        NewTopic,
        PartitionReassignment,
        TopicPartition,
    )
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
    from pykbroker_protocol.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionResponse,
    )
    from pykbroker_protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )
    from pykbroker_protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
    from pykbroker_protocol.messages.broker_registration import BrokerRegistrationRequest

Outcome = TypeVar("Outcome")

SESSION_TIMEOUT_SECONDS = 9.0
FIRST_EPOCH = 1
CLUSTER_ID = "model-cluster-AAAAAAAAA"
FEATURES: Mapping[str, int] = {**FEATURES_OF_A_NEW_CLUSTER, ELIGIBLE_LEADER_REPLICAS: 1}


class LeadershipLost(Exception):
    """The controller of the quorum changed before the records of a request were committed."""


class ControllerModel:
    """Decides requests on one event loop; a controller server is its network side."""

    def __init__(
        self,
        *,
        clock: Clock,
        randomness: Randomness,
        cluster_id: str = CLUSTER_ID,
        controller_ids: Sequence[int] = (3000,),
        features: Mapping[str, int] = FEATURES,
        min_in_sync: int = 1,
        session_timeout_seconds: float = SESSION_TIMEOUT_SECONDS,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.clock = clock
        self.cluster_id = cluster_id
        self.controller_ids = tuple(controller_ids)
        self.leader_id = self.controller_ids[0]
        self.epoch = FIRST_EPOCH
        self.endpoints: dict[int, tuple[str, int]] = {}
        """Addresses of the controllers, set by their servers."""
        self.session_timeout_seconds = session_timeout_seconds
        self.commit_delay_seconds: float | None = 0.0
        """Time from append to commit; None keeps records uncommitted until `commit`."""
        self.log = ModelLog()
        self.image = ClusterImage(cluster_id=cluster_id)
        """Metadata up to the log end, uncommitted records included."""
        self.sessions: dict[int, Session] = {}
        self.received: list[Message] = []
        """All requests in the order of arrival; a test reads them."""
        self.note: Callable[[str], None] = lambda _: None
        """Receives a line for each appended record."""
        self.randomness = randomness
        self.settings = load_settings({"log.dirs": "unused", **(properties or {})})
        self._moved: asyncio.Event | None = None
        self._fencing: Alarm | None = None
        self.log.begin_epoch(self.epoch, self.leader_id, self.controller_ids, clock.now_ms())
        self.image.offset = 0
        self._append(
            [
                *(FeatureLevelRecord(name=it, feature_level=features[it]) for it in features),
                ConfigRecord(
                    resource_type=BROKER_RESOURCE,
                    resource_name=CLUSTER_WIDE,
                    name=MIN_IN_SYNC,
                    value=str(min_in_sync),
                ),
            ]
        )
        self.log.high_watermark = self.log.end_offset

    # --- for tests

    def elect(self, controller_id: int | None = None, *, keeps_uncommitted: bool = True) -> None:
        """Begins a new controller epoch, by default of the next controller."""
        if controller_id is None:
            position = self.controller_ids.index(self.leader_id) + 1
            controller_id = self.controller_ids[position % len(self.controller_ids)]
        if not keeps_uncommitted and self.log.high_watermark < self.log.end_offset:
            self.log.truncate(self.log.high_watermark)
            self.image = self._replayed()
        self.leader_id = controller_id
        self.epoch += 1
        now_ms = self.clock.now_ms()
        self.log.begin_epoch(self.epoch, controller_id, self.controller_ids, now_ms)
        self.image.offset = self.log.end_offset - 1
        # A new controller grants every unfenced broker a full session.
        now = self.clock.monotonic()
        self.sessions = {
            broker.id: Session(broker_epoch=broker.epoch, contact_seconds=now)
            for broker in self.image.brokers.values()
            if not broker.fenced
        }
        self._schedule_commit()
        self._schedule_fencing()
        self._notify()

    def commit(self) -> None:
        """Commits all appended records."""
        if self.log.high_watermark < self.log.end_offset:
            self.log.high_watermark = self.log.end_offset
            self._notify()

    def take_snapshot(self) -> None:
        """Commits all records and replaces them by a snapshot."""
        self.commit()
        self.log.take_snapshot(self.image, self.clock.now_ms())

    def close(self) -> None:
        if self._fencing is not None:
            self._fencing.cancel()

    # --- requests of brokers

    async def register(self, request: BrokerRegistrationRequest) -> int | Refusal:
        outcome = await self.execute(
            lambda: membership_decisions.register(
                self.image,
                request,
                self.sessions.get(request.broker_id),
                next_offset=self.log.end_offset,
                now_seconds=self.clock.monotonic(),
                timeout_seconds=self.session_timeout_seconds,
            )
        )
        if not isinstance(outcome, Refusal):
            self.sessions.setdefault(
                request.broker_id,
                Session(broker_epoch=outcome, contact_seconds=self.clock.monotonic()),
            )
        return outcome

    async def heartbeat(
        self, request: BrokerHeartbeatRequest
    ) -> membership_decisions.HeartbeatOutcome | Refusal:
        def decide() -> Decision[membership_decisions.HeartbeatOutcome | Refusal]:
            decision = membership_decisions.heartbeat(
                self.image,
                request,
                self.sessions,
                last_offset=self.log.end_offset - 1,
                now_seconds=self.clock.monotonic(),
            )
            outcome = decision.outcome
            if not isinstance(outcome, Refusal):
                self.sessions[request.broker_id] = outcome.session
            return decision

        outcome = await self.execute(decide)
        self._schedule_fencing()
        return outcome

    async def alter_partitions(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return await self.execute(lambda: replica_decisions.alter_partitions(self.image, request))

    async def assign_directories(
        self, request: AssignReplicasToDirsRequest
    ) -> AssignReplicasToDirsResponse | Refusal:
        return await self.execute(lambda: replica_decisions.assign_directories(self.image, request))

    async def allocate_ids(self, request: AllocateProducerIdsRequest) -> range | Refusal:
        def decide() -> Decision[range | Refusal]:
            refusal = membership_decisions.check_epoch(
                self.image, request.broker_id, request.broker_epoch
            )
            if refusal is not None:
                return Decision((), refusal)
            broker = self.image.brokers[request.broker_id]
            return Decision(*allocate_producer_ids(self.image, broker))

        return await self.execute(decide)

    def fence(self, broker_id: int) -> None:
        """Fences a broker at once, as after a session timeout."""
        if not self.image.brokers[broker_id].fenced:
            self._append(membership_decisions.fence(self.image, broker_id))
            self._schedule_commit()
        self.sessions.pop(broker_id, None)

    # --- commands (controller_access.ControllerAccess)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        return await self.execute(
            lambda: run_to_end(create_topics(self.image, topics, self._topic_rules())),
            validate_only=validate_only,
        )

    async def delete_topics(
        self, names_or_ids: Sequence[str | bytes]
    ) -> list[TopicImage | Refusal]:
        return await self.execute(lambda: run_to_end(delete_topics(self.image, names_or_ids)))

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self.execute(
            lambda: run_to_end(create_partitions(self.image, topics, self.randomness.below)),
            validate_only=validate_only,
        )

    async def alter_configurations(
        self, changes: Sequence[ConfigurationChange], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        settings = effective_settings(self.settings, self.image)
        return await self.execute(
            lambda: run_to_end(alter_configurations(self.image, changes, settings)),
            validate_only=validate_only,
        )

    async def replace_configurations(
        self, replacements: Sequence[ConfigurationReplacement], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        settings = effective_settings(self.settings, self.image)
        return await self.execute(
            lambda: run_to_end(replace_configurations(self.image, replacements, settings)),
            validate_only=validate_only,
        )

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], election_type: ElectionType
    ) -> list[Refusal | None]:
        return await self.execute(lambda: elect_leaders(self.image, partitions, election_type))

    async def reassign_partitions(
        self, reassignments: Sequence[PartitionReassignment]
    ) -> list[Refusal | None]:
        return await self.execute(lambda: reassign_partitions(self.image, reassignments))

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> Refusal | None:
        return await self.execute(
            lambda: update_features(self.image.features, updates), validate_only=validate_only
        )

    async def allocate_producer_ids(self) -> range | Refusal:
        return Refusal(ErrorCode.INVALID_REQUEST, "A controller needs no producer ids.")

    async def register_broker(self, registration: BrokerRegistration) -> int | Refusal:
        del registration
        return Refusal(ErrorCode.INVALID_REQUEST, "Brokers register with BrokerRegistration.")

    async def unregister_broker(self, broker_id: int) -> Refusal | None:
        from pykbroker.controller.brokers import unregister_broker  # noqa: PLC0415 - rarely used

        return await self.execute(lambda: unregister_broker(self.image, broker_id))

    async def describe_quorum(self) -> QuorumStatus:
        return QuorumStatus(
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            high_watermark=self.log.high_watermark,
            log_end_offset=self.log.end_offset,
        )

    # --- executing

    async def execute(
        self, decide: Callable[[], Decision[Outcome]], *, validate_only: bool = False
    ) -> Outcome:
        """Decides, appends the records and waits for their commit. Raises LeadershipLost."""
        decision = decide()
        if decision.records and not validate_only:
            self._append(decision.records)
            self._schedule_commit()
            await self._until_committed(self.log.end_offset, self.epoch)
        return decision.outcome

    async def _until_committed(self, offset: int, epoch: int) -> None:
        while self.log.high_watermark < offset:
            if self.epoch != epoch:
                raise LeadershipLost
            await self.until_moved()
        if self.epoch != epoch:
            raise LeadershipLost

    async def until_moved(self, seconds: float | None = None) -> None:
        """Waits until records are appended or committed, or the controller changes."""
        if self._moved is None:
            self._moved = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._moved.wait(), seconds)

    def _notify(self) -> None:
        if self._moved is not None:
            self._moved.set()
            self._moved = None

    def _append(self, records: Sequence[Message]) -> None:
        delta = run_to_end(
            replay(self.image, records, last_offset=self.log.end_offset + len(records) - 1)
        )
        offset = self.log.end_offset
        self.log.append(records, self.epoch, self.clock.now_ms())
        for position, record in enumerate(records):
            self.note(f"metadata {offset + position}: {described(record)}")
        self.image.apply(delta)

    def _schedule_commit(self) -> None:
        if self.commit_delay_seconds is None:
            self._notify()  # followers read records that are not committed
        elif self.commit_delay_seconds == 0:
            self.log.high_watermark = self.log.end_offset
            self._notify()
        else:
            end, epoch = self.log.end_offset, self.epoch
            self.clock.call_later(self.commit_delay_seconds, self._commit_until, end, epoch)
            self._notify()

    def _commit_until(self, offset: int, epoch: int) -> None:
        if epoch == self.epoch and self.log.high_watermark < offset:
            self.log.high_watermark = offset
            self._notify()

    def _replayed(self) -> ClusterImage:
        """Returns the image of snapshot and log."""
        image = ClusterImage(cluster_id=self.cluster_id)
        collected = Replay(image)
        if self.log.snapshot is not None:
            for record in decode_snapshot(self.log.snapshot.data):
                collected.add(record)
        for batch in self.log.batches:
            for record in batch.records:
                collected.add(record)
        image.apply(run_to_end(collected.finish(self.log.end_offset - 1)))
        return image

    # --- fencing

    def _schedule_fencing(self) -> None:
        """Sets the alarm to the first session that can time out."""
        contacts = [
            self.sessions[it.id].contact_seconds
            for it in self.image.brokers.values()
            if not it.fenced and it.id in self.sessions
        ]
        if self._fencing is None and contacts:
            wait = min(contacts) + self.session_timeout_seconds - self.clock.monotonic()
            self._fencing = self.clock.call_later(max(wait, 0.0), self._fence_expired)

    def _fence_expired(self) -> None:
        self._fencing = None
        silent = list(
            expired(
                self.image.brokers.values(),
                self.sessions,
                now_seconds=self.clock.monotonic(),
                timeout_seconds=self.session_timeout_seconds,
            )
        )
        for broker_id in silent:
            self.fence(broker_id)
        self._schedule_fencing()

    def _topic_rules(self) -> TopicRules:
        settings = effective_settings(self.settings, self.image)
        return TopicRules(
            default_partitions=settings.num_partitions,
            default_replication_factor=settings.default_replication_factor,
            refuse_configuration=lambda given: refuse_topic_overrides(settings, given),
            new_id=self.randomness.uuid_bytes,
            draw=self.randomness.below,
        )


def described(record: Message) -> str:
    """Returns the type of a record and its numbers and texts that differ from the defaults."""
    values = ((name, getattr(record, name)) for name in record.defaults)
    shown = (
        f"{name}={value.hex()[:8] if isinstance(value, bytes) else value}"
        for name, value in values
        if value != record.defaults[name] and name not in {"end_points", "features", "directories"}
    )
    return f"{type(record).__name__} {' '.join(shown)}"
