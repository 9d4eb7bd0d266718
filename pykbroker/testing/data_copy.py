"""Copies a running broker's data in a moment: sealed segments are shared, only the rest is copied.

Everything here happens between two turns of the event loop, so that nobody writes meanwhile. The
copy is as after a clean end: a broker that is started on it has nothing to recover.
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
"""What a broker writes into its directory, beside the folders of partitions."""
ASIDE: Final = ".aside"
"""No topic, no file of a broker ends so."""
NOT_COPIED: Final = (".tmp", ".cleaned", ".swap", ".deleted", ".lock")
SEGMENT: Final = ".log"


def save_data(broker: Broker, target: Path) -> None:
    """Fills a directory that somebody has named; what lies there is not mixed with it."""
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty: data is saved into a directory of its own")
    copy_data(broker, target)


def copy_data(broker: Broker, target: Path) -> None:
    """Fills an empty directory. Segments in the making are sealed, in the original too."""
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
    """All records lie in files that never change again, all that is known of them is written."""
    directory, now_ms = broker.directory, broker.clock.now_ms()
    for partition in directory.partitions():
        directory.log(partition, now_ms=now_ms).roll(now_ms)
    directory.checkpoint(broker.partitions.high_watermarks())
    directory.save_first_dirty_offsets(directory.first_dirty_offsets())


def copy_files(source: Path, target: Path) -> None:
    with os.scandir(source) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir():  # not a broker's, and none the less the caller's
            shutil.copytree(entry.path, target / entry.name, symlinks=True)
        elif entry.name.endswith(NOT_COPIED):
            continue
        elif entry.name.endswith(SEGMENT) and entry.stat().st_size:
            share(entry.path, target / entry.name)
        else:
            shutil.copy2(entry.path, target / entry.name)


def share(source: str, target: Path) -> None:
    """Two names for the same bytes, or a copy where the two lie on different disks."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


# --- where a copy lies


def copy_within(broker: Broker) -> Path:
    """Where a broker goes back to it: on the same disk, wherever that is mounted."""
    return copied(broker, make_directory_within)


def copy_beside(broker: Broker) -> Path:
    """Where it outlives the directory: on the same disk, if one may write there."""
    return copied(broker, make_directory_beside)


def copied(broker: Broker, make: Callable[[Path], Path]) -> Path:
    """Nothing is left of a copy that fails."""
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
