"""A file system in a file, ext4 or xfs on a loop device, with simulated power loss; needs root."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from compat.missing_tool import find_program

if TYPE_CHECKING:
    from collections.abc import Iterator

FS_IOC_SHUTDOWN = 0x8004587D
WITHOUT_FLUSHING_THE_JOURNAL = struct.pack("=I", 2)
IMAGE_BYTES = 400 * 1024 * 1024  # sparse; mkfs.xfs needs at least 300 MB
MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1"),
    "xfs": ("mkfs.xfs", "-q"),
}


class LoopDisk:
    """A file system mounted at `mount_point`; several can exist at once."""

    def __init__(self, directory: Path, kind: str, *options: str) -> None:
        self.mount_point = directory / "mounted"
        self._image = directory / "image"
        self._options = ("loop", *options)
        self._is_mounted = False
        self.mount_point.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(IMAGE_BYTES)
        run(*MAKE[kind], str(self._image))
        self.mount()

    def mount(self) -> None:
        """Replays the journal of the file system, as after a power loss."""
        run("mount", "-o", ",".join(self._options), str(self._image), str(self.mount_point))
        self._is_mounted = True

    def unmount(self) -> None:
        if self._is_mounted:
            run("umount", str(self.mount_point))
            self._is_mounted = False

    def cut_power(self) -> None:
        """Stops all writes to the disk, including dirty pages and the journal in memory."""
        descriptor = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, FS_IOC_SHUTDOWN, WITHOUT_FLUSHING_THE_JOURNAL)
        finally:
            os.close(descriptor)


@contextmanager
def loop_disk(directory: Path, kind: str, *options: str) -> Iterator[LoopDisk]:
    disk = LoopDisk(directory, kind, *options)
    try:
        yield disk
    finally:
        disk.unmount()


def missing_requirement(kind: str, directory: Path) -> str:
    """Returns why such a disk cannot be mounted here; empty if it can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "mounting a file system needs root"
    for tool in (MAKE[kind][0], "mount", "umount"):
        find_program(tool)
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    try:
        with loop_disk(directory, kind):
            return ""
    except subprocess.CalledProcessError as failure:
        return f"a loop device cannot be mounted: {failure.stderr.strip()}"


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
