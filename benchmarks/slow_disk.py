"""A slow disk for a broker's data: ext4 on a loop device with limited bandwidth and IOPS.

Needs root, loop devices, and the block I/O controller of cgroup v1 (`blkio`) or v2 (`io`).
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = f"pykbroker-bench-{os.getpid()}"
TOOLS = ("mkfs.ext4", "losetup", "mount", "umount")
MAKE_TIMEOUT_SECONDS = 60.0


class SlowDiskUnavailableError(RuntimeError):
    """A slow disk cannot be created; the message names the missing requirement."""


class SlowDisk:
    """A mounted file system, without limits until `slowed_down`."""

    def __init__(self, path: Path, device: str) -> None:
        self.path = path
        self._device = device  # the loop device
        number = Path(f"/sys/block/{Path(device).name}/dev").read_text().strip()
        self._limits = _LimitsV1(number) if _has_v1() else _LimitsV2(number)

    @contextmanager
    def slowed_down(
        self, pid: int, *, bytes_per_second: int, operations_per_second: int
    ) -> Iterator[None]:
        """Limits the disk for a process, and for kernel threads where possible."""
        self._limits.impose(pid, bytes_per_second, operations_per_second)
        try:
            yield
        finally:
            self._limits.lift()

    def drop_cache(self) -> None:
        """Drops the page cache by remounting. No file may be open."""
        _run("umount", str(self.path))
        _run("mount", self._device, str(self.path))


@contextmanager
def slow_disk(scratch: Path, *, size_bytes: int) -> Iterator[SlowDisk]:
    """Mounts a new disk. Raises SlowDiskUnavailableError."""
    _refuse_if_unavailable()
    image, path = scratch / "disk.img", scratch / "disk"
    path.mkdir()
    with image.open("wb") as file:
        file.truncate(size_bytes)
    with ExitStack() as stack:
        stack.callback(image.unlink)
        _run("mkfs.ext4", "-q", "-F", str(image))
        device = _run("losetup", "--find", "--show", str(image)).strip()
        stack.callback(_run, "losetup", "--detach", device)
        _run("mount", device, str(path))
        stack.callback(_run, "umount", str(path))
        yield SlowDisk(path, device)


class _LimitsV1:
    """Limits in the root group, which contains kernel write-back, and in that of the process."""

    def __init__(self, number: str) -> None:
        self._number = number

    def impose(self, pid: int, bytes_per_second: int, operations_per_second: int) -> None:
        del pid  # a child process is in the same group
        for group in self._groups():
            for kind, value in (("bps", bytes_per_second), ("iops", operations_per_second)):
                for direction in ("read", "write"):
                    file = group / f"blkio.throttle.{direction}_{kind}_device"
                    file.write_text(f"{self._number} {value}")

    def lift(self) -> None:
        self.impose(0, 0, 0)

    @staticmethod
    def _groups() -> set[Path]:
        root, own = CGROUPS / "blkio", CGROUPS / "blkio"
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "blkio" in controllers.split(","):
                own = root / path.strip("/")
        return {root, own}


class _LimitsV2:
    """Limits in a new group to which the process moves; write-back is charged to it."""

    def __init__(self, number: str) -> None:
        self._number = number
        self._group = CGROUPS / OWN_GROUP

    def impose(self, pid: int, bytes_per_second: int, operations_per_second: int) -> None:
        (CGROUPS / "cgroup.subtree_control").write_text("+io")
        self._group.mkdir(exist_ok=True)
        bounds = " ".join(
            f"{direction}bps={bytes_per_second} {direction}iops={operations_per_second}"
            for direction in ("r", "w")
        )
        (self._group / "io.max").write_text(f"{self._number} {bounds}")
        (self._group / "cgroup.procs").write_text(str(pid))

    def lift(self) -> None:
        (self._group / "io.max").write_text(f"{self._number} rbps=max wbps=max riops=max wiops=max")
        for pid in (self._group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (CGROUPS / "cgroup.procs").write_text(pid)
        self._group.rmdir()


def _has_v1() -> bool:
    return (CGROUPS / "blkio" / "blkio.throttle.read_bps_device").exists()


def _refuse_if_unavailable() -> None:
    missing = [it for it in TOOLS if shutil.which(it) is None]
    controllers = CGROUPS / "cgroup.controllers"
    has_v2 = controllers.exists() and "io" in controllers.read_text().split()
    if os.geteuid() != 0:
        raise SlowDiskUnavailableError("a slow disk needs root")
    if missing:
        raise SlowDiskUnavailableError(f"a slow disk needs {', '.join(missing)}")
    if not (_has_v1() or has_v2):
        raise SlowDiskUnavailableError("a slow disk needs the cgroup controller blkio or io")
    if not Path("/dev/loop-control").exists():
        raise SlowDiskUnavailableError("a slow disk needs loop devices")


def _run(*command: str) -> str:
    finished = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=MAKE_TIMEOUT_SECONDS
    )
    if finished.returncode != 0:
        raise SlowDiskUnavailableError(f"{' '.join(command)}: {finished.stderr.strip()}")
    return finished.stdout
