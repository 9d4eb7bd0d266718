"""Fetch sessions of followers: only partitions that have changed are read.

A follower fetches all partitions of a leader twice per second, also while nothing is written. Its
session watches the partitions. A partition without changes since the last response costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.fetch_sessions import FetchSession, PartitionKey, SessionPartition
from pykbroker.partitions.follower_progress import NEVER
from pykbroker.partitions.reading import Fetched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.apis.fetch_response import PartitionResult
    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.waiting import FetchWait
    from pykbroker_protocol.messages.fetch import FetchPartition

FULL_LOOK_SECONDS = 5.0
"""Interval in which all partitions are read, for changes that no partition reports (retention)."""


class FollowedPartition(SessionPartition):
    """A partition of the session, which reports its changes to this object (`FollowerWatch`)."""

    __slots__ = ("changes", "changes_read", "is_held_back", "key", "partition", "session")

    def __init__(
        self, requested: FetchPartition, session: FollowerSession, key: PartitionKey
    ) -> None:
        super().__init__(requested)
        self.session = session
        self.key = key
        self.partition: Partition | None = None
        self.changes = 0
        self.changes_read = 0
        """The number of changes at the last read."""
        self.is_held_back = False
        """True above `leader.replication.throttled.rate`: its bytes do not end a wait."""

    def watch(self, partition: Partition) -> None:
        watches = partition.waiting.watches
        if watches.get(self.session.replica) is not self:  # also if another session has replaced it
            self.unwatch()
            self.partition = partition
            watches[self.session.replica] = self

    def begin_read(self, partition: Partition) -> None:
        self.changes_read = self.changes
        self.is_held_back = False
        self.watch(partition)

    def unwatch(self) -> None:
        if self.partition is not None:
            watches = self.partition.waiting.watches
            if watches.get(self.session.replica) is self:
                del watches[self.session.replica]
            self.partition = None

    def appended(self, byte_count: int) -> None:
        session = self.session
        if self.key not in session.changed and self.partition is not None:
            # The last fetch of the session was a fetch from the end of this partition.
            self.partition.leader.note_idle_fetch(session.replica, session.fetched_at)
        self.change()
        if not self.is_held_back:
            session.arrived(byte_count)

    def change(self) -> None:
        self.changes += 1
        self.session.changed[self.key] = None

    def interrupt(self) -> None:
        self.change()
        self.session.interrupt()

    def may_rest(self, outcome: Fetched) -> bool:
        """Returns True if the next fetch may skip the partition unless it changes."""
        partition = self.partition
        return (
            partition is not None
            and self.changes == self.changes_read
            and not outcome.records
            and self.requested.fetch_offset >= partition.log.log_end_offset
            and self.session.replica in partition.leadership.in_sync
            and partition.high_watermark >= partition.log.log_end_offset
        )


class FollowerSession(FetchSession):
    """The session of one fetcher of a follower."""

    __slots__ = (
        "arrivals",
        "broker_epoch",
        "changed",
        "fetched_at",
        "looked_at",
        "replica",
        "wait",
    )

    partitions: dict[PartitionKey, FollowedPartition]  # type: ignore[assignment]

    is_follower = True

    def __init__(self, session_id: int, *, uses_topic_ids: bool, used_ms: int) -> None:
        super().__init__(session_id, uses_topic_ids=uses_topic_ids, used_ms=used_ms)
        self.replica = -1
        self.changed: dict[PartitionKey, None] = {}
        """The partitions that the next fetch reads."""
        self.wait: FetchWait | None = None
        self.arrivals = 0
        """Appended bytes, to detect an append between a read and the wait."""
        self.fetched_at = NEVER
        self.looked_at = NEVER
        self.broker_epoch: int | None = None

    def put(self, key: PartitionKey, requested: FetchPartition) -> None:
        known = self.partitions.get(key)
        if known is None:
            self.partitions[key] = FollowedPartition(requested, self, key)
        else:
            known.requested = requested
        self.changed[key] = None

    def remove(self, key: PartitionKey) -> None:
        removed = self.partitions.pop(key, None)
        self.changed.pop(key, None)
        if removed is not None:
            removed.unwatch()

    def close(self) -> None:
        for it in self.partitions.values():
            it.unwatch()

    def begin_fetch(self, broker_epoch: int, now: float) -> None:
        self.fetched_at = now
        if now - self.looked_at >= FULL_LOOK_SECONDS or broker_epoch != self.broker_epoch:
            self.looked_at, self.broker_epoch = now, broker_epoch
            self.changed.update(dict.fromkeys(self.partitions))

    def changed_partitions(self) -> Iterator[tuple[PartitionKey, FetchPartition]]:
        for key in list(self.changed):
            known = self.partitions.get(key)
            if known is not None:
                yield key, known.requested

    def arrived(self, byte_count: int) -> None:
        self.arrivals += byte_count
        if self.wait is not None:
            self.wait.bytes_arrived(byte_count)

    def interrupt(self) -> None:
        """Completes the waiting fetch, after a change other than new bytes."""
        self.arrivals += 1
        if self.wait is not None:
            self.wait.complete()

    def answered(self, results: list[PartitionResult]) -> None:
        """Skips partitions in the next fetch that have no changes since they were read."""
        for result in results:
            known = self.partitions.get(result.key)
            if (
                known is not None
                and isinstance(result.outcome, Fetched)
                and known.may_rest(result.outcome)
            ):
                self.changed.pop(result.key, None)

    def move_to_end(self, served: list[PartitionKey]) -> None:
        """Moves partitions that returned records to the end, so that limits affect all equally."""
        for key in served:
            if key in self.changed:
                del self.changed[key]
                self.changed[key] = None
