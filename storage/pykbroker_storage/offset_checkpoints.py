"""The offsets of a directory's logs, as known and as written down for the next start."""

from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

from pykbroker_storage.checkpoint import (
    FIRST_DIRTY_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    TopicPartition,
)
from pykbroker_storage.directory_files import read_checkpoint, write_checkpoint
from pykbroker_storage.filesystem import FileSystem


class OffsetSnapshot(NamedTuple):
    """What was known at one moment, by the name of its file; what is known later has more turns."""

    turn: int
    by_file: Mapping[str, Mapping[TopicPartition, int]]


class CheckpointFiles:
    """The offset checkpoints of a directory: any thread writes them, none puts older over newer."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._writing = Lock()
        self._latest_turn = 0
        self._is_over = False
        self._written: dict[str, Mapping[TopicPartition, int]] = {}
        self.written_turn = 0  # nothing from before it is in the files any longer

    def write(self, known: OffsetSnapshot) -> None:
        """Durably, if it is news; what lies in a file already is not written again."""
        with self._writing:
            if self._is_over or known.turn <= self._latest_turn:
                return
            self._latest_turn = known.turn
            for name, offsets in known.by_file.items():
                if self._written.get(name) != offsets:
                    self._written.pop(name, None)  # or who knows what a failure leaves there
                    write_checkpoint(self._filesystem, f"{self._directory}/{name}", offsets)
                    self._written[name] = offsets
            self.written_turn = known.turn

    def end(self) -> None:
        """A thread that comes too late writes nothing: the directory may be another's by then."""
        with self._writing:
            self._is_over = True


class OffsetCheckpoints:
    """One owner; `write` and `write_first_dirty` alone may run on other threads."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self.recovery_points = self._read(RECOVERY_POINT_FILE)
        self.log_starts = self._read(LOG_START_FILE)
        self.high_watermarks = self._read(HIGH_WATERMARK_FILE)
        self.first_dirty = self._read(FIRST_DIRTY_FILE)
        self._files = CheckpointFiles(filesystem, directory)
        self._turn = 0
        # Logs that are gone, and the last turn that may have written down their offsets.
        self._gone: dict[TopicPartition, int] = {}

    def _read(self, name: str) -> dict[TopicPartition, int]:
        return read_checkpoint(self._filesystem, f"{self._directory}/{name}")

    def _chapters(self) -> tuple[dict[TopicPartition, int], ...]:
        return self.recovery_points, self.log_starts, self.high_watermarks, self.first_dirty

    def partitions(self) -> set[TopicPartition]:
        """Of which anything is noted, be they there or not."""
        return set().union(*self._chapters())

    def forget(self, partition: TopicPartition) -> None:
        for offsets in self._chapters():
            offsets.pop(partition, None)
        self._gone[partition] = self._turn

    def may_be_in_files(self, partition: TopicPartition) -> bool:
        """Whether a start might find the offsets of a log that is gone."""
        return self._gone.get(partition, -1) >= self._files.written_turn

    def has_gone_in_files(self) -> bool:
        return any(turn >= self._files.written_turn for turn in self._gone.values())

    def known(self) -> OffsetSnapshot:
        """A copy as of now: what is to be written."""
        self._turn += 1
        self._gone = {it: turn for it, turn in self._gone.items() if self.may_be_in_files(it)}
        return OffsetSnapshot(
            self._turn,
            {
                RECOVERY_POINT_FILE: self.recovery_points.copy(),
                LOG_START_FILE: self.log_starts.copy(),
                HIGH_WATERMARK_FILE: self.high_watermarks.copy(),
            },
        )

    def write(self, known: OffsetSnapshot) -> None:
        """Durably, unless newer ones are written."""
        self._files.write(known)

    def write_first_dirty(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Durably, one at a time."""
        write_checkpoint(self._filesystem, f"{self._directory}/{FIRST_DIRTY_FILE}", offsets)

    def end(self) -> None:
        """Nothing is written any more, whoever still means to."""
        self._files.end()
