"""Snapshot files of the metadata log, `<end offset>-<epoch>.checkpoint`.

A snapshot contains all metadata before its end offset. It is written under a temporary name and
renamed once it is complete and flushed. A start reads the newest snapshot.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pykbroker.metadata.snapshot import (
    SUFFIX,
    SnapshotName,
    decode_snapshot,
    encode_snapshot,
    parse_snapshot_name,
)
from pykbroker_storage.filesystem import FileSystem, read_file, sync_file, write_fully

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.metadata.image import ClusterImage
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Message

UNFINISHED_SUFFIX = ".checkpoint.part"


def newest_snapshot(filesystem: FileSystem, directory: str) -> SnapshotName | None:
    names = map(parse_snapshot_name, filesystem.list_directory(directory))
    return max((name for name in names if name), default=None)


def write_snapshot(
    filesystem: FileSystem,
    directory: str,
    name: SnapshotName,
    image: ClusterImage,
    *,
    timestamp_ms: int,
) -> None:
    """Writes and flushes a snapshot, then deletes older and unfinished snapshots."""
    write_part(filesystem, directory, name, 0, encode_snapshot(image, name, timestamp_ms))
    install_snapshot(filesystem, directory, name)


def write_part(
    filesystem: FileSystem, directory: str, name: SnapshotName, position: int, data: Buffer
) -> None:
    """Writes a part of a snapshot that is not complete; the part at 0 begins a new file."""
    descriptor = filesystem.open(_unfinished(directory, name))
    try:
        if position == 0:
            filesystem.ftruncate(descriptor, 0)
        write_fully(filesystem, descriptor, data, position)
    finally:
        filesystem.close(descriptor)


def read_unfinished(
    filesystem: FileSystem, directory: str, name: SnapshotName
) -> Iterator[Message]:
    """Returns all records of a fetched snapshot, like `read_snapshot`."""
    return decode_snapshot(read_file(filesystem, _unfinished(directory, name)))


def _unfinished(directory: str, name: SnapshotName) -> str:
    return f"{directory}/{name.file_name.removesuffix(SUFFIX)}{UNFINISHED_SUFFIX}"


def install_snapshot(filesystem: FileSystem, directory: str, name: SnapshotName) -> None:
    """Flushes and renames a complete snapshot, then deletes older and unfinished ones."""
    unfinished = _unfinished(directory, name)
    sync_file(filesystem, unfinished)
    filesystem.rename(unfinished, f"{directory}/{name.file_name}")
    filesystem.sync_directory(directory)
    for other in filesystem.list_directory(directory):
        if other.endswith(UNFINISHED_SUFFIX) or (parse_snapshot_name(other) or name) < name:
            with suppress(FileNotFoundError):
                filesystem.unlink(f"{directory}/{other}")


def read_snapshot(filesystem: FileSystem, directory: str, name: SnapshotName) -> Iterator[Message]:
    """Returns all records. Raises `CorruptBatch` if the file is incomplete or corrupt."""
    return decode_snapshot(read_file(filesystem, f"{directory}/{name.file_name}"))


def delete_unfinished(filesystem: FileSystem, directory: str) -> None:
    """Deletes snapshots that were not complete when the process ended."""
    for name in filesystem.list_directory(directory):
        if name.endswith(UNFINISHED_SUFFIX):
            filesystem.unlink(f"{directory}/{name}")
