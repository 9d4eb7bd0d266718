"""Follows the metadata log of the controllers and delivers committed metadata to the broker.

The broker is an observer of the quorum: it fetches the log from the leader, keeps a copy on disk
and applies records below the high watermark. It is not a voter.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pykbroker.client.connection_pool import ConnectionPool
from pykbroker.client.errors import ClientError
from pykbroker.client.retries import Attempts
from pykbroker.membership.committed_records import CommittedRecords, is_empty
from pykbroker.membership.controller_quorum import ForeignCluster
from pykbroker.membership.observer_log import ObserverLog
from pykbroker.membership.quorum_fetch import (
    UNKNOWN_HIGH_WATERMARK,
    AnotherLeader,
    Append,
    LoadSnapshot,
    Position,
    Retry,
    Truncate,
    WrongCluster,
    fetch_request,
    leader_in,
    next_step,
)
from pykbroker.membership.snapshot_fetch import fetch_snapshot
from pykbroker.metadata.difference import difference
from pykbroker.metadata.image import ClusterImage
from pykbroker.metadata.replay import Replay
from pykbroker.metadata.snapshot import SnapshotName
from pykbroker.metadata_log.metadata_log import UNREADABLE
from pykbroker.metadata_log.snapshot_files import read_snapshot
from pykbroker.slices import Slices, in_slices
from pykbroker.telemetry.log_throttle import LogThrottle, suppressed_text
from pykbroker_protocol.messages.fetch import FetchResponse
from pykbroker_storage.batch_preparation import InvalidReplicatedBatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from pykbroker.clock import Clock
    from pykbroker.membership.controller_quorum import ControllerQuorum
    from pykbroker.membership.quorum_view import QuorumLeader
    from pykbroker.metadata.image import ImageDelta
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Message
    from pykbroker_storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

Deliver: TypeAlias = "Callable[[ImageDelta], Awaitable[None] | None]"

SNAPSHOT_AFTER_BYTES: Final = 2 * 1024 * 1024
"""Bounds the records that a start replays: about 40,000 records, less than half a second."""

RECORDS_PER_SLICE: Final = 128
LOG_PERIOD_SECONDS: Final = 30.0


class MetadataFailure(NamedTuple):
    """Why this broker cannot serve with the metadata of the cluster; for the operator."""

    reason: str


class CannotFollowMetadata(Exception):
    """The follower has ended; the message is for the operator."""


class MetadataFollower:
    """Runs one task on the event loop. Deltas are delivered one after the other."""

    @classmethod
    async def open(
        cls,
        directory: LogDirectory,
        quorum: ControllerQuorum,
        *,
        node_id: int,
        cluster_id: str,
        fetch_timeout_seconds: float,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> MetadataFollower:
        """Loads the local snapshot and begins to follow the controllers. Raises OSError."""
        clock = quorum.options.clock
        log = ObserverLog.open(directory, now_ms=clock.now_ms())
        follower = cls(
            log,
            quorum,
            clock=clock,
            node_id=node_id,
            directory_id=directory.directory_id,
            cluster_id=cluster_id,
            fetch_timeout_seconds=fetch_timeout_seconds,
            snapshot_after_bytes=snapshot_after_bytes,
        )
        await follower.load()
        follower.start()
        return follower

    def __init__(
        self,
        log: ObserverLog,
        quorum: ControllerQuorum,
        *,
        clock: Clock,
        node_id: int,
        directory_id: bytes,
        cluster_id: str,
        fetch_timeout_seconds: float,
        snapshot_after_bytes: int,
    ) -> None:
        self.log = log
        self.image = ClusterImage(cluster_id=cluster_id)
        self.high_watermark = UNKNOWN_HIGH_WATERMARK
        """The newest high watermark that a leader has sent; -1 before the first."""
        self._quorum = quorum
        self._clock = clock
        self._node_id = node_id
        self._directory_id = directory_id
        self._fetch_timeout_seconds = fetch_timeout_seconds
        self._snapshot_after_bytes = snapshot_after_bytes
        self._snapshot_due_at_bytes = snapshot_after_bytes
        self._records = CommittedRecords(0)
        self._subscribers: list[Deliver] = []
        self._pool = ConnectionPool(quorum.options)
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._failure: asyncio.Future[MetadataFailure] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._pauses = Attempts(quorum.options, float("inf"))
        self._throttle = LogThrottle(lines_max=1, period_seconds=LOG_PERIOD_SECONDS)

    # --- for the broker

    @property
    def offset(self) -> int:
        """Offset of the last applied record, CurrentMetadataOffset of a heartbeat."""
        return self._records.applicable_offset

    @property
    def leader_id(self) -> int:
        return self._quorum.view.leader_id

    @property
    def leader_epoch(self) -> int:
        return self._quorum.view.leader_epoch

    def subscribe(self, deliver: Deliver) -> ClusterImage:
        """Returns a copy of the committed image, and delivers each later delta.

        If `deliver` returns an awaitable, later deltas wait for it.
        """
        self._subscribers.append(deliver)
        return self.image.copy()

    async def caught_up(self) -> None:
        """Waits until all records below the high watermark of the leader are applied.

        Raises CannotFollowMetadata.
        """
        await self._until(lambda: self.is_caught_up)

    @property
    def is_caught_up(self) -> bool:
        """True once all records below the newest known high watermark are applied."""
        return 0 <= self.high_watermark <= self._records.next_offset

    async def applied(self, offset: int) -> None:
        """Waits until the record at `offset` is applied. Raises CannotFollowMetadata."""
        await self._until(lambda: self.offset >= offset)

    async def failed(self) -> MetadataFailure:
        """Waits for a reason to stop this broker."""
        return await asyncio.shield(self._failure)

    async def close(self) -> None:
        """Ends at once, also while no controller answers. The log directory closes the log."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail_waiting("the broker is stopping")
        await self._pool.close()

    # --- starting

    async def load(self) -> None:
        """Applies the newest snapshot on disk."""
        name = self.log.snapshot
        if name is None:
            return
        try:
            await self._load_snapshot(name)
        except UNREADABLE as problem:
            logger.warning(
                "metadata log: snapshot %s cannot be used (%s); fetching all metadata again",
                name.file_name,
                problem,
            )
            self.log.restart(None, self._clock.now_ms())

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._follow())

    # --- following the leader

    async def _follow(self) -> None:
        try:
            while True:
                await self._fetch_once()
        except ForeignCluster as failure:
            self._fail(str(failure))
        except UNREADABLE as failure:
            self._fail(f"metadata at offset {self._records.next_offset}: {failure}")
        except CannotFollowMetadata as failure:
            self._fail(str(failure))
        except Exception as failure:
            logger.exception("metadata log: internal error")
            self._fail(f"metadata log: internal error ({failure})")

    async def _fetch_once(self) -> None:
        leader = await self._quorum.leader()
        await self._note_controller(leader.id)
        try:
            await self._pool.retain([leader.address])
            connection = await self._pool.connection_to(leader.address)
            response = await connection.request(
                fetch_request(self._position(leader)),
                FetchResponse,
                timeout_seconds=self._fetch_timeout_seconds,
            )
        except ClientError as failure:
            await self._retry(leader, str(failure))
            return
        named = leader_in(response)
        self._quorum.observed(named.leader_id, named.leader_epoch, named.endpoints)
        if self._quorum.view.leader_epoch > leader.epoch:
            return
        match next_step(response):
            case Append(records, high_watermark):
                await self._append(leader, records, high_watermark)
            case Truncate(epoch, end_offset):
                await self._truncate(leader, epoch, end_offset)
            case LoadSnapshot(name):
                await self._install(leader, name)
            case AnotherLeader(reason) | Retry(reason):
                await self._retry(leader, f"{leader.address} answered {reason}")
            case WrongCluster():
                raise ForeignCluster(
                    f"controller {leader.address} does not belong to cluster "
                    f"{self.image.cluster_id}"
                )

    def _position(self, leader: QuorumLeader) -> Position:
        return Position(
            node_id=self._node_id,
            cluster_id=self.image.cluster_id,
            directory_id=self._directory_id,
            leader_epoch=leader.epoch,
            end_offset=self.log.end_offset,
            last_epoch=self.log.last_epoch,
            log_start_offset=self.log.start_offset,
            high_watermark=self.high_watermark,
        )

    async def _retry(self, leader: QuorumLeader, reason: str) -> None:
        """Asks all controllers for the leader before the next Fetch."""
        suppressed = self._throttle.admit(leader.address, self._clock.monotonic())
        if suppressed is not None:
            logger.warning(
                "metadata log: Fetch from controller %d failed: %s; retrying%s",
                leader.id,
                reason,
                suppressed_text(suppressed),
            )
        self._quorum.lost(leader)
        await self._pauses.pause()

    async def _append(self, leader: QuorumLeader, records: Buffer, high_watermark: int) -> None:
        try:
            if len(records):
                self.log.append(records, leader_epoch=leader.epoch, now_ms=self._clock.now_ms())
        except (InvalidReplicatedBatch, OSError) as failure:
            await self._retry(leader, str(failure))
            return
        self._pauses.restart()
        self.high_watermark = max(self.high_watermark, high_watermark)
        await self._apply_committed()

    async def _truncate(self, leader: QuorumLeader, epoch: int, end_offset: int) -> None:
        offset = self.log.divergence(epoch, end_offset)
        if offset < self._records.next_offset:
            raise CannotFollowMetadata(
                f"metadata log: the controllers' log ends at offset {offset} of epoch {epoch}, but "
                f"offsets up to {self._records.next_offset - 1} were committed; the cluster has "
                "lost metadata"
            )
        if offset >= self.log.end_offset:
            await self._retry(leader, f"no common offset for epoch {epoch}")
            return
        logger.info(
            "metadata log: truncated from offset %d to %d (epoch %d of the leader ends there)",
            self.log.end_offset,
            offset,
            epoch,
        )
        self.log.truncate_to(offset, self._clock.now_ms())

    # --- applying

    async def _apply_committed(self) -> None:
        while True:
            end = min(self.high_watermark, self.log.end_offset)
            if self._records.next_offset >= end:
                break
            batches = self.log.batches(self._records.next_offset, end)
            collecting = self._records.collect(self.image, batches)
            delta, _ = await in_slices(collecting, begins_at_once=True)
            if not is_empty(delta):
                await self._deliver(delta)
            self._notify_waiting()
        self._notify_waiting()
        if self.log.size_bytes > self._snapshot_due_at_bytes:
            await self._take_snapshot()

    async def _deliver(self, delta: ImageDelta) -> None:
        self.image.apply(delta)
        for deliver in tuple(self._subscribers):
            try:
                delivering = deliver(delta)
                if delivering is not None:
                    await delivering
            except Exception:
                logger.exception(
                    "metadata: offset %d is committed but the broker did not apply it; restart "
                    "the broker",
                    delta.last_offset,
                )

    async def _note_controller(self, controller_id: int) -> None:
        if controller_id != self.image.controller_id:
            self.image.controller_id = controller_id

    # --- snapshots

    async def _install(self, leader: QuorumLeader, name: SnapshotName) -> None:
        """Fetches a snapshot of the leader and continues the log at its end."""
        if name.end_offset < self._records.next_offset:
            raise CannotFollowMetadata(
                f"metadata log: the controllers offer a snapshot up to offset "
                f"{name.end_offset - 1}, but offsets up to {self._records.next_offset - 1} were "
                "committed; the cluster has lost metadata"
            )
        connection = await self._pool.connection_to(leader.address)
        failure = await fetch_snapshot(connection, self._position(leader), name, self.log)
        if failure is not None:
            await self._retry(leader, failure)
            return
        self.log.restart(name, self._clock.now_ms())
        await self._load_snapshot(name)
        self._pauses.restart()

    async def _load_snapshot(self, name: SnapshotName) -> None:
        """Delivers the difference between the image and a snapshot."""
        directory = self.log.log.directory
        records = await asyncio.to_thread(
            lambda: iter(read_snapshot(self.log.filesystem, directory, name))
        )
        loaded = ClusterImage(
            cluster_id=self.image.cluster_id, controller_id=self.image.controller_id
        )
        loaded.apply(
            await in_slices(_replay(loaded, records, name.end_offset - 1), begins_at_once=True)
        )
        delta = await in_slices(difference(self.image, loaded), begins_at_once=True)
        self._records.restart(name.end_offset)
        await self._deliver(delta)
        self.high_watermark = max(self.high_watermark, name.end_offset)
        self._snapshot_due_at_bytes = self.log.size_bytes + self._snapshot_after_bytes
        logger.info(
            "metadata log: loaded snapshot %s (topics: %d, brokers: %d)",
            name.file_name,
            len(loaded.topics),
            len(loaded.brokers),
        )

    async def _take_snapshot(self) -> None:
        """Writes a snapshot of the applied records and deletes older segments of the log."""
        self._snapshot_due_at_bytes = self.log.size_bytes + self._snapshot_after_bytes
        if self._records.has_open_transaction:
            return
        now_ms = self._clock.now_ms()
        end_offset = self._records.next_offset
        name = SnapshotName(end_offset, self.log.log.leader_epochs.epoch_at(end_offset - 1))
        try:
            self.log.log.roll(now_ms)
            await asyncio.to_thread(self.log.write_snapshot, name, self.image, now_ms)
            self.log.snapshot = name
            self.log.delete_before(name, now_ms)
        except OSError as failure:
            logger.warning(
                "metadata log: snapshot failed (%s); the log keeps all records; next attempt "
                "after %d more bytes",
                failure,
                self._snapshot_after_bytes,
            )
            return
        self._snapshot_due_at_bytes = self.log.size_bytes + self._snapshot_after_bytes

    # --- waiting and failing

    async def _until(self, is_reached: Callable[[], bool]) -> None:
        if self._failure.done():
            raise CannotFollowMetadata(self._failure.result().reason)
        if is_reached():
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (is_reached, waiting)
        self._waiting.append(entry)
        try:
            await waiting
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def _notify_waiting(self) -> None:
        for is_reached, waiting in self._waiting:
            if not waiting.done() and is_reached():
                waiting.set_result(None)

    def _fail(self, reason: str) -> None:
        logger.critical("%s", reason)
        if not self._failure.done():
            self._failure.set_result(MetadataFailure(reason))
        self._fail_waiting(reason)

    def _fail_waiting(self, reason: str) -> None:
        for _, waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(CannotFollowMetadata(reason))


def _replay(
    image: ClusterImage, records: Iterable[Message], last_offset: int
) -> Slices[ImageDelta]:
    replay = Replay(image)
    for count, record in enumerate(records):
        if count % RECORDS_PER_SLICE == RECORDS_PER_SLICE - 1:
            yield
        replay.add(record)
    return (yield from replay.finish(last_offset))
