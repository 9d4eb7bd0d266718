"""The image of the committed metadata, its subscribers and its snapshots on disk."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from pykbroker.generators import run_to_end
from pykbroker.membership.committed_records import RECORDS_PER_SLICE, CommittedRecords
from pykbroker.membership.member_replay import MemberReplay, Unserved
from pykbroker.metadata.difference import difference
from pykbroker.metadata.image import NO_OFFSET, ClusterImage
from pykbroker.metadata.replay import Replay
from pykbroker.metadata.snapshot import SnapshotName
from pykbroker.metadata_log.snapshot_files import read_snapshot
from pykbroker.slices import Slices, in_slices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from pykbroker.clock import Clock
    from pykbroker.membership.observer_log import ObserverLog
    from pykbroker.metadata.image import ImageDelta
    from pykbroker_protocol.message import Message

logger = logging.getLogger(__name__)

T = TypeVar("T")
Deliver: TypeAlias = "Callable[[ImageDelta], Awaitable[None] | None]"

LAG_SECONDS_MAX: Final = 0.2
"""A step that blocks the event loop for longer is logged: heartbeats wait for it."""


class AppliedMetadata:
    """Applies committed records in order. Deltas are delivered one after the other."""

    def __init__(
        self, log: ObserverLog, *, cluster_id: str, clock: Clock, snapshot_after_bytes: int
    ) -> None:
        self.log = log
        self.image = ClusterImage(cluster_id=cluster_id)
        self.unserved = Unserved()
        self._clock = clock
        self.offset = NO_OFFSET
        """Offset of the last record that subscribers have applied; open transactions wait."""
        self.end_offset = 0
        """All committed records below it are applied, except those of an open transaction."""
        self._records = CommittedRecords(0)
        self._subscribers: list[Deliver] = []
        self._snapshot_after_bytes = snapshot_after_bytes
        self._snapshot_due_at_bytes = snapshot_after_bytes

    @property
    def next_offset(self) -> int:
        """Offset of the next committed record to read."""
        return self._records.next_offset

    def subscribe(self, deliver: Deliver) -> ClusterImage:
        self._subscribers.append(deliver)
        return self.image.copy()

    async def apply(self, end_offset: int, on_progress: Callable[[], None]) -> None:
        """Applies all records below `end_offset`, which are committed and in the log."""
        while self.next_offset < end_offset:
            batches = self.log.batches(self.next_offset, end_offset)
            collecting = self._records.collect(MemberReplay(self.image, self.unserved), batches)
            delta = await self._in_slices(collecting)
            if not delta.is_empty:
                await self._deliver(delta)
            self._note_applied()
            on_progress()

    def _note_applied(self) -> None:
        self.offset = self._records.applicable_offset
        self.end_offset = self._records.next_offset

    async def change_controller(self, controller_id: int) -> None:
        """Delivers another active controller, which no record contains."""
        if controller_id != self.image.controller_id:
            unchanged = run_to_end(Replay(self.image).finish(self.image.offset))
            await self._deliver(replace(unchanged, controller_id=controller_id))

    async def _deliver(self, delta: ImageDelta) -> None:
        self.image.apply(delta)
        for deliver in tuple(self._subscribers):
            try:
                before = self._clock.monotonic()
                delivering = deliver(delta)
                self._note_lag(before, delta.last_offset)
                if delivering is not None:
                    await delivering
            except Exception:
                logger.exception(
                    "metadata: offset %d is committed but the broker did not apply it; partitions "
                    "and Metadata responses are out of date; restart the broker",
                    delta.last_offset,
                )

    # --- snapshots

    async def load_snapshot(self, name: SnapshotName) -> None:
        """Delivers the difference between the image and a snapshot on disk.

        Raises one of `UNREADABLE`; the image is unchanged then.
        """
        directory = self.log.log.directory
        records = await asyncio.to_thread(read_snapshot, self.log.filesystem, directory, name)
        loaded = ClusterImage(
            cluster_id=self.image.cluster_id, controller_id=self.image.controller_id
        )
        unserved = Unserved()
        replaying = _replay(MemberReplay(loaded, unserved), records, name.end_offset - 1)
        loaded.apply(await self._in_slices(replaying))
        delta = await self._in_slices(difference(self.image, loaded))
        self.unserved = unserved
        self._records.restart(name.end_offset)
        await self._deliver(delta)
        self._note_applied()
        self._snapshot_due_at_bytes = self.log.size_bytes + self._snapshot_after_bytes

    async def take_snapshot_if_due(self) -> None:
        """Writes a snapshot of the applied records and deletes older segments of the log."""
        if self.log.size_bytes <= self._snapshot_due_at_bytes:
            return
        self._snapshot_due_at_bytes = self.log.size_bytes + self._snapshot_after_bytes
        if self._records.has_open_transaction or self.unserved:
            return  # the snapshot would not contain them
        now_ms = self._clock.now_ms()
        name = SnapshotName(self.next_offset, self.log.epoch_at(self.next_offset - 1))
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

    # --- the event loop

    async def _in_slices(self, slices: Slices[T]) -> T:
        return await in_slices(self._measured(slices), begins_at_once=True)

    def _measured(self, slices: Slices[T]) -> Slices[T]:
        """Runs a generator and logs each slice that blocks the event loop for too long."""
        while True:
            before = self._clock.monotonic()
            try:
                next(slices)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._note_lag(before, self.next_offset)
            yield

    def _note_lag(self, before: float, offset: int) -> None:
        seconds = self._clock.monotonic() - before
        if seconds > LAG_SECONDS_MAX:
            logger.warning(
                "metadata: applying records at offset %d blocked the event loop for %d ms",
                offset,
                seconds * 1000,
            )


def _replay(replay: Replay, records: Iterable[Message], last_offset: int) -> Slices[ImageDelta]:
    for count, record in enumerate(records):
        if count % RECORDS_PER_SLICE == RECORDS_PER_SLICE - 1:
            yield
        replay.add(record)
    return (yield from replay.finish(last_offset))
