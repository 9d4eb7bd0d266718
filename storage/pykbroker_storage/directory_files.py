"""Files of a log directory: offset checkpoints and the clean-shutdown file."""

import json
import logging
from collections.abc import Mapping

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


def read_checkpoint(filesystem: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Reads an offset checkpoint. Losing one costs time or lowers a watermark, but no records."""
    try:
        data = read_file(filesystem, path)
        return decode_offsets(data) if data else {}
    except FileNotFoundError:
        return {}
    except MalformedCheckpoint as problem:
        logger.warning("%s: checkpoint is corrupt (%s); starting with an empty one", path, problem)
        return {}


def write_checkpoint(
    filesystem: FileSystem, path: str, offsets: Mapping[TopicPartition, int]
) -> None:
    replace_file(filesystem, path, encode_offsets(offsets))


def mark_clean_shutdown(filesystem: FileSystem, directory: str, broker_epoch: int) -> None:
    mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(filesystem, f"{directory}/{CLEAN_SHUTDOWN_FILE}", mark.encode())


def consume_clean_shutdown(filesystem: FileSystem, directory: str) -> tuple[bool, int]:
    """Deletes the clean-shutdown file; returns whether it existed, and the broker epoch in it."""
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
