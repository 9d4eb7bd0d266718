"""The slow disk of the benchmarks: limits, and removal afterwards."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from benchmarks.slow_disk import SlowDisk, SlowDiskUnavailableError, slow_disk

pytestmark = pytest.mark.slow

MEGABYTE = 1 << 20


def flushed_write_seconds(disk: SlowDisk, size_bytes: int) -> float:
    began = time.monotonic()
    with (disk.path / "file").open("wb") as file:
        file.write(bytes(size_bytes))
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - began


def test_slow_disk_limits_bandwidth_and_is_removed_afterwards(tmp_path: Path) -> None:
    try:
        with slow_disk(tmp_path, size_bytes=64 * MEGABYTE) as disk:
            with disk.slowed_down(
                os.getpid(), bytes_per_second=MEGABYTE, operations_per_second=1000
            ):
                assert flushed_write_seconds(disk, 3 * MEGABYTE) > 1
            disk.drop_cache()
            assert (disk.path / "file").stat().st_size == 3 * MEGABYTE
    except SlowDiskUnavailableError as missing:
        pytest.skip(str(missing))
    used = subprocess.run(["losetup", "--all"], check=True, capture_output=True, text=True)
    assert str(tmp_path) not in used.stdout
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
