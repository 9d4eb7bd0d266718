"""The leader epochs of a log with their start offsets (`leader-epoch-checkpoint`).

Two replicas find the offset at which their logs diverged without comparing records.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple, Self

from pykbroker_storage.checkpoint import (
    MalformedCheckpoint,
    decode_lines,
    encode_lines,
    fields_of,
    number_in,
)

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record; both -1 if unknown."""

    epoch: int
    end_offset: int


UNKNOWN_END = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """Two parallel ascending lists: `_epochs[i]` starts at `_start_offsets[i]`."""

    __slots__ = ("_epochs", "_start_offsets")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Adds an epoch; returns True if the checkpoint must be written.

        Removes conflicting entries (same or later epoch or offset): they were not committed.
        """
        assert epoch >= 0, f"leader epoch {epoch}"
        assert start_offset >= 0, f"leader epoch {epoch} from offset {start_offset}"
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._start_offsets[-1]:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._start_offsets, start_offset))
        self._keep(slice(0, keep))
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        return True

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last record; -1 if the log never had one."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def epoch_at(self, offset: int) -> int:
        """Returns the epoch of the record at `offset`; -1 if that entry was truncated."""
        index = bisect_right(self._start_offsets, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Returns the end offset of `epoch`, as in OffsetForLeaderEpoch.

        For an epoch without records here, returns the previous epoch. An epoch older than all
        entries ends at the start of the oldest. One newer than all entries is unknown.
        """
        if epoch == self.latest_epoch and epoch != NO_EPOCH:
            return EpochEnd(epoch, log_end_offset)
        later = bisect_right(self._epochs, epoch)
        if epoch == NO_EPOCH or later == len(self._epochs):
            return UNKNOWN_END
        known = self._epochs[later - 1] if later else epoch
        return EpochEnd(known, self._start_offsets[later])

    def truncate_from_end(self, end_offset: int) -> bool:
        """Removes the epochs that start at `end_offset` or later; returns whether any did."""
        keep = bisect_left(self._start_offsets, end_offset)
        changed = keep < len(self._epochs)
        self._keep(slice(0, keep))
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Removes entries below `start_offset`; returns whether anything changed.

        The epoch that contains `start_offset` starts there afterwards.
        """
        first = bisect_right(self._start_offsets, start_offset) - 1
        if first < 0 or (first == 0 and self._start_offsets[0] == start_offset):
            return False
        self._keep(slice(first, None))
        self._start_offsets[0] = start_offset
        return True

    def entries(self) -> list[tuple[int, int]]:
        """Returns every epoch with its start offset, oldest first."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def encode(self) -> bytes:
        """Returns the content of a `leader-epoch-checkpoint`."""
        return encode_lines(f"{epoch} {start}" for epoch, start in self.entries())

    @classmethod
    def decode(cls, data: bytes) -> Self:
        epochs = cls()
        for number, line in decode_lines(data):
            epoch, start_offset = (number_in(field, number) for field in fields_of(line, number, 2))
            if epoch < 0 or start_offset < 0:
                raise MalformedCheckpoint(f"line {number} has a negative number")
            # Like Kafka: of two conflicting entries the later line applies.
            epochs.assign(epoch, start_offset)
        return epochs

    def _keep(self, kept: slice) -> None:
        self._epochs = self._epochs[kept]
        self._start_offsets = self._start_offsets[kept]
