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

from pykbroker_storage.directory_files import UNKNOWN_BROKER_EPOCH, mark_clean_shutdown
from pykbroker_storage.filesystem import FLEETING_DISK

if TYPE_CHECKING:
    from pykbroker.broker import Broker

NOT_COPIED: Final = (".tmp", ".cleaned", ".swap", ".deleted", ".lock")
SEGMENT: Final = ".log"


def copy_data(broker: Broker, target: Path) -> None:
    """Fills an empty directory. Segments in the making are sealed, in the original too."""
    seal(broker)
    directory = broker.directory
    source = Path(directory.path)
    for topic, index in directory.partitions():
        folder = f"{topic}-{index}"
        (target / folder).mkdir()
        copy_files(source / folder, target / folder)
    copy_files(source, target)
    mark_clean_shutdown(FLEETING_DISK, str(target), UNKNOWN_BROKER_EPOCH)


def seal(broker: Broker) -> None:
    """All records lie in files that never change again, all that is known of them is written."""
    directory, now_ms = broker.directory, broker.clock.now_ms()
    for partition in directory.partitions():
        directory.log(partition, now_ms=now_ms).roll(now_ms)
    directory.checkpoint(broker.partitions.high_watermarks())
    directory.save_first_dirty_offsets(directory.first_dirty_offsets())


def copy_files(source: Path, target: Path) -> None:
    for entry in os.scandir(source):
        if not entry.is_file() or entry.name.endswith(NOT_COPIED):
            continue
        if entry.name.endswith(SEGMENT) and entry.stat().st_size:
            share(entry.path, target / entry.name)
        else:
            shutil.copy2(entry.path, target / entry.name)


def share(source: str, target: Path) -> None:
    """Two names for the same bytes, or a copy where the two lie on different disks."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def make_directory_beside(directory: Path) -> Path:
    """On the same disk, so that files can be shared."""
    return Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=directory.parent))


def replace_content(directory: Path, by: Path) -> None:
    """The directory keeps its name and gets what another holds, which is gone afterwards."""
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    for entry in by.iterdir():
        entry.rename(directory / entry.name)
    by.rmdir()
