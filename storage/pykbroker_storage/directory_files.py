"""What a log directory writes down for its next start: offsets per partition, a clean end."""

import json
import logging
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

from pykbroker_storage.checkpoint import (
    MalformedCheckpoint,
    TopicPartition,
    decode_offsets,
    encode_offsets,
)
from pykbroker_storage.filesystem import FileSystem, read_file, replace_file

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
UNKNOWN_BROKER_EPOCH = -1


class KnownOffsets(NamedTuple):
    """What was known at one moment, by the name of its file; what is known later has more turns."""

    turn: int
    by_file: Mapping[str, Mapping[TopicPartition, int]]


class OffsetFiles:
    """The offset checkpoints of a directory: any thread writes them, none puts older over newer."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._writing = Lock()
        self._latest_turn = 0
        self._is_over = False
        self._written: dict[str, Mapping[TopicPartition, int]] = {}
        self.written_turn = 0  # nothing from before it is in the files any longer

    def write(self, known: KnownOffsets) -> None:
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


def read_checkpoint(filesystem: FileSystem, path: str) -> dict[TopicPartition, int]:
    """An offset checkpoint; to lose one costs time or a low watermark, no records."""
    try:
        data = read_file(filesystem, path)
        return decode_offsets(data) if data else {}
    except FileNotFoundError:
        return {}
    except MalformedCheckpoint as problem:
        logger.warning("%s: %s; begun anew", path, problem)
        return {}


def write_checkpoint(
    filesystem: FileSystem, path: str, offsets: Mapping[TopicPartition, int]
) -> None:
    replace_file(filesystem, path, encode_offsets(offsets))


def mark_clean_shutdown(filesystem: FileSystem, directory: str, broker_epoch: int) -> None:
    mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(filesystem, f"{directory}/{CLEAN_SHUTDOWN_FILE}", mark.encode())


def take_clean_shutdown(filesystem: FileSystem, directory: str) -> tuple[bool, int]:
    """Whether the last end was clean, and the broker's epoch then; the mark is taken away."""
    path = f"{directory}/{CLEAN_SHUTDOWN_FILE}"
    try:
        mark = read_file(filesystem, path)
    except FileNotFoundError:
        return False, UNKNOWN_BROKER_EPOCH
    filesystem.unlink(path)
    filesystem.sync_directory(directory)
    try:
        return True, int(json.loads(mark)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return True, UNKNOWN_BROKER_EPOCH
