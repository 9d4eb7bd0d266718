"""Copies the data of a running broker. Sealed segments are hard links, other files are copied.

The copy is made between two iterations of the event loop, so no append runs in between. It has the
clean-shutdown file: a broker that starts on it needs no log recovery.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykbroker.testing.temporary_directory import make_directory, remove_directory
from pykbroker_storage.checkpoint import (
    FIRST_DIRTY_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
)
from pykbroker_storage.directory_files import (
    CLEAN_SHUTDOWN_FILE,
    UNKNOWN_BROKER_EPOCH,
    mark_clean_shutdown,
)
from pykbroker_storage.filesystem import VOLATILE_DISK

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.broker import Broker

FILES: Final = (
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    LOG_START_FILE,
    HIGH_WATERMARK_FILE,
    FIRST_DIRTY_FILE,
    CLEAN_SHUTDOWN_FILE,
)
"""Files of a broker in its log directory, beside the partition folders."""
ASIDE: Final = ".aside"
"""Suffix of temporary directories. Topic names and broker files do not end with it."""
NOT_COPIED: Final = (".tmp", ".cleaned", ".swap", ".deleted", ".lock")
SEGMENT: Final = ".log"


def save_data(broker: Broker, target: Path) -> None:
    """Copies the data into a new or empty directory. Raises FileExistsError if it has files."""
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(f"{target}: directory is not empty")
    copy_data(broker, target)


def copy_data(broker: Broker, target: Path) -> None:
    """Copies the data into an empty directory. Rolls the active segments of the original first."""
    seal(broker)
    directory = broker.directory
    source = Path(directory.path)
    for topic, index in directory.partitions():
        folder = f"{topic}-{index}"
        (target / folder).mkdir()
        copy_files(source / folder, target / folder)
    for name in FILES:
        if (source / name).exists():
            shutil.copy2(source / name, target / name)
    mark_clean_shutdown(VOLATILE_DISK, str(target), UNKNOWN_BROKER_EPOCH)


def seal(broker: Broker) -> None:
    """Rolls active segments, so that all records are in immutable files, and writes checkpoints."""
    directory, now_ms = broker.directory, broker.clock.now_ms()
    for partition in directory.partitions():
        directory.log(partition, now_ms=now_ms).roll(now_ms)
    directory.checkpoint(broker.partitions.high_watermarks())
    directory.save_first_dirty_offsets(directory.first_dirty_offsets())


def copy_files(source: Path, target: Path) -> None:
    with os.scandir(source) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir():  # not created by the broker; kept for the caller
            shutil.copytree(entry.path, target / entry.name, symlinks=True)
        elif entry.name.endswith(NOT_COPIED):
            continue
        elif entry.name.endswith(SEGMENT) and entry.stat().st_size:
            share(entry.path, target / entry.name)
        else:
            shutil.copy2(entry.path, target / entry.name)


def share(source: str, target: Path) -> None:
    """Creates a hard link, or a copy if the target is on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


# --- directories of copies


def copy_within(broker: Broker) -> Path:
    """Copies into a folder of the log directory, which is certainly on the same file system."""
    return copied(broker, make_directory_within)


def copy_beside(broker: Broker) -> Path:
    """Copies beside the log directory, so that the copy outlives it."""
    return copied(broker, make_directory_beside)


def copied(broker: Broker, make: Callable[[Path], Path]) -> Path:
    """Copies into a new directory and deletes the directory if the copy fails."""
    target = make(Path(broker.directory.path))
    try:
        copy_data(broker, target)
    except BaseException:
        remove_directory(target)
        raise
    return target


def make_directory_within(directory: Path) -> Path:
    return Path(tempfile.mkdtemp(suffix=ASIDE, dir=directory))


def make_directory_beside(directory: Path) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=directory.parent))
    except OSError:
        return make_directory()
