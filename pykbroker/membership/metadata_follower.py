"""Follows the metadata log of the controllers and delivers committed metadata to the broker.

The broker is an observer of the quorum: it fetches the log from the leader, keeps a copy on disk
and applies records below the high watermark. It is not a voter.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.client.connection_pool import ConnectionPool
from pykbroker.client.errors import ClientError
from pykbroker.client.retries import Attempts
from pykbroker.membership.applied_metadata import AppliedMetadata, Deliver
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
from pykbroker.metadata_log.metadata_log import UNREADABLE
from pykbroker.telemetry.log_throttle import LogThrottle, suppressed_text
from pykbroker_protocol.messages.fetch import FetchResponse
from pykbroker_storage.batch_preparation import InvalidReplicatedBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.clock import Clock
    from pykbroker.membership.controller_quorum import ControllerQuorum
    from pykbroker.membership.quorum_view import QuorumLeader
    from pykbroker.metadata.image import ClusterImage
    from pykbroker.metadata.snapshot import SnapshotName
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

SNAPSHOT_AFTER_BYTES: Final = 2 * 1024 * 1024
"""Bounds the records that a start replays: about 40,000 records, less than half a second."""

NEVER: Final = float("-inf")
LOG_PERIOD_SECONDS: Final = 30.0


class MetadataFailure(NamedTuple):
    """Why this broker must not serve the cluster any longer; the reason is for the operator."""

    reason: str
    follows: bool
    """True if metadata is still followed, so that a controlled shutdown is possible."""


class CannotFollowMetadata(Exception):
    """The metadata of the cluster cannot be followed; the message is for the operator."""


class MetadataFollower:
    """Runs one task on the event loop."""

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
            AppliedMetadata(
                log,
                cluster_id=cluster_id,
                clock=clock,
                snapshot_after_bytes=snapshot_after_bytes,
            ),
            quorum,
            clock=clock,
            node_id=node_id,
            directory_id=directory.directory_id,
            fetch_timeout_seconds=fetch_timeout_seconds,
        )
        await follower.load()
        follower.start()
        return follower

    def __init__(
        self,
        log: ObserverLog,
        metadata: AppliedMetadata,
        quorum: ControllerQuorum,
        *,
        clock: Clock,
        node_id: int,
        directory_id: bytes,
        fetch_timeout_seconds: float,
    ) -> None:
        self.log = log
        self.high_watermark = UNKNOWN_HIGH_WATERMARK
        """The newest high watermark that a leader has sent; -1 before the first."""
        self.complete_at = NEVER
        """All records that were committed before this moment are applied; monotonic seconds."""
        self._metadata = metadata
        self._quorum = quorum
        self._clock = clock
        self._node_id = node_id
        self._directory_id = directory_id
        self._fetch_timeout_seconds = fetch_timeout_seconds
        self._pool = ConnectionPool(quorum.options)
        self._pauses = Attempts(quorum.options, float("inf"))
        self._throttle = LogThrottle(lines_max=1, period_seconds=LOG_PERIOD_SECONDS)
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._failure: asyncio.Future[MetadataFailure] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.on_append_error: Callable[[OSError], None] | None = None
        """Receives errors of the disk. Until an append succeeds, the metadata is out of date."""

    # --- for the broker

    @property
    def image(self) -> ClusterImage:
        """The committed metadata; subscribers have images of their own."""
        return self._metadata.image

    @property
    def offset(self) -> int:
        """Offset of the last applied record, CurrentMetadataOffset of a heartbeat."""
        return self._metadata.offset

    @property
    def leader_id(self) -> int:
        return self._quorum.view.leader_id

    @property
    def leader_epoch(self) -> int:
        return self._quorum.view.leader_epoch

    def subscribe(self, deliver: Deliver) -> ClusterImage:
        """Returns a copy of the committed image, and delivers each later delta.

        Deltas are delivered one after the other; the next one waits if `deliver` returns an
        awaitable. The offset of an image is that of its last delta: records without an effect on
        the image are not delivered.
        """
        return self._metadata.subscribe(deliver)

    @property
    def is_caught_up(self) -> bool:
        """True while all records below the newest known high watermark are applied."""
        return 0 <= self.high_watermark <= self._metadata.end_offset

    async def caught_up(self) -> None:
        """Waits until all records below the high watermark of the leader are applied.

        Raises CannotFollowMetadata, also for metadata that this broker does not serve.
        """
        await self._until(lambda: self.is_caught_up)
        if self._failure.done():
            raise CannotFollowMetadata(self._failure.result().reason)

    async def applied(self, offset: int) -> None:
        """Waits until the record at `offset` is applied. Raises CannotFollowMetadata."""
        await self._until(lambda: self.offset >= offset)

    async def until_failed(self) -> MetadataFailure:
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
            await self._metadata.load_snapshot(name)
        except UNREADABLE as problem:
            logger.warning(
                "metadata log: snapshot %s cannot be used (%s); fetching all metadata again",
                name.file_name,
                problem,
            )
            self.log.discard(name, self._clock.now_ms())

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._follow())

    # --- following the leader

    async def _follow(self) -> None:
        try:
            while True:
                await self._fetch_once()
        except (ForeignCluster, CannotFollowMetadata) as failure:
            self._fail(str(failure), follows=False)
        except UNREADABLE as failure:
            self._fail(
                f"metadata log: records from offset {self._metadata.next_offset} on cannot be "
                f"applied: {failure}",
                follows=False,
            )
        except Exception as failure:
            logger.exception("metadata log: internal error")
            self._fail(f"metadata log: internal error ({failure})", follows=False)

    async def _fetch_once(self) -> None:
        leader = await self._quorum.leader()
        await self._metadata.change_controller(leader.id)
        sent_at = self._clock.monotonic()
        try:
            await self._pool.retain([leader.address])
            connection = await self._pool.connection_to(leader.address)
            await self._quorum.learn_controllers(connection, leader)
            response = await connection.request(
                fetch_request(self._position(leader)),
                FetchResponse,
                timeout_seconds=self._fetch_timeout_seconds,
            )
        except ClientError as failure:
            self._pool.discard(leader.address)  # TCP can take minutes until it sends again
            await self._retry(leader, str(failure))
            return
        named = leader_in(response)
        self._quorum.observed(named.leader_id, named.leader_epoch, named.endpoints)
        if self._quorum.view.leader_epoch > leader.epoch:
            return  # records of a leader that is deposed
        match next_step(response):
            case Append(records, high_watermark):
                is_appended = await self._append(leader, records, high_watermark)
                # A new leader does not know its high watermark at first.
                if is_appended and high_watermark >= 0 and self.is_caught_up:
                    self.complete_at = sent_at
            case Truncate(epoch, end_offset):
                await self._truncate(leader, epoch, end_offset)
            case LoadSnapshot(name):
                await self._install(leader, name)
            case AnotherLeader(reason) | Retry(reason):
                await self._retry(leader, f"{leader.address} answered {reason}")
            case WrongCluster():
                raise self._quorum.foreign(leader.address)

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
        """Pauses; then all controllers are asked for the leader before the next Fetch."""
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

    async def _append(self, leader: QuorumLeader, records: Buffer, high_watermark: int) -> bool:
        """Returns False if the records cannot be appended."""
        try:
            if len(records):
                self.log.append(records, leader_epoch=leader.epoch, now_ms=self._clock.now_ms())
        except (InvalidReplicatedBatch, OSError) as failure:
            if self.on_append_error is not None and isinstance(failure, OSError):
                self.on_append_error(failure)
            await self._retry(leader, str(failure))
            return False
        self._pauses.restart()
        self.high_watermark = max(self.high_watermark, high_watermark)
        end_offset = min(self.high_watermark, self.log.end_offset)
        if self._metadata.next_offset < end_offset:
            await self._metadata.apply(end_offset, self._notify_waiting)
            await self._metadata.take_snapshot_if_due()
        self._note_caught_up()
        return True

    async def _truncate(self, leader: QuorumLeader, epoch: int, end_offset: int) -> None:
        offset = self.log.divergence(epoch, end_offset)
        self._refuse_loss(offset, f"end at offset {offset - 1} of epoch {epoch}")
        if offset >= self.log.end_offset:
            await self._retry(leader, f"{leader.address} named no common offset")
            return
        logger.info(
            "metadata log: truncated from offset %d to %d, where epoch %d of the leader ends",
            self.log.end_offset,
            offset,
            epoch,
        )
        self.log.truncate_to(offset, self._clock.now_ms())

    async def _install(self, leader: QuorumLeader, name: SnapshotName) -> None:
        """Fetches a snapshot of the leader and continues the log at its end."""
        self._refuse_loss(name.end_offset, f"are in a snapshot up to offset {name.end_offset - 1}")
        try:
            connection = await self._pool.connection_to(leader.address)
            await fetch_snapshot(connection, self._position(leader), name, self.log)
            self.log.restart(name, self._clock.now_ms())
        except (ClientError, OSError, *UNREADABLE) as failure:
            await self._retry(leader, f"snapshot {name.file_name}: {failure}")
            return
        await self._metadata.load_snapshot(name)
        logger.info(
            "metadata log: loaded snapshot %s of controller %d (topics: %d, brokers: %d)",
            name.file_name,
            leader.id,
            len(self.image.topics),
            len(self.image.brokers),
        )
        self._pauses.restart()
        self._notify_waiting()

    def _refuse_loss(self, offset: int, description: str) -> None:
        """Raises CannotFollowMetadata if the controllers lack records that were committed."""
        if offset < self._metadata.next_offset:
            raise CannotFollowMetadata(
                f"metadata log: the records of the controllers {description}, but records up to "
                f"offset {self._metadata.next_offset - 1} were committed; the controllers have "
                "lost metadata"
            )

    # --- waiting and failing

    def _note_caught_up(self) -> None:
        reason = self._metadata.unserved.reason if self.is_caught_up else None
        if reason is not None:
            self._fail(reason, follows=True)
        self._notify_waiting()

    async def _until(self, is_reached: Callable[[], bool]) -> None:
        if self._failure.done() and not self._failure.result().follows:
            raise CannotFollowMetadata(self._failure.result().reason)
        if is_reached():
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (is_reached, waiting)
        self._waiting.append(entry)
        try:
            await waiting
        finally:
            self._waiting.remove(entry)

    def _notify_waiting(self) -> None:
        for is_reached, waiting in self._waiting:
            if not waiting.done() and is_reached():
                waiting.set_result(None)

    def _fail(self, reason: str, *, follows: bool) -> None:
        if not self._failure.done():
            logger.critical("%s", reason)
            self._failure.set_result(MetadataFailure(reason, follows))
        if not follows:
            self._fail_waiting(reason)

    def _fail_waiting(self, reason: str) -> None:
        for _, waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(CannotFollowMetadata(reason))
