"""A process killed at any moment keeps every acknowledged record."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pykbroker_storage.configuration import LogConfiguration
from tests.storage.batches import open_log, records_from

# Each value derives from its offset, so that the content can be verified.
WRITER = """
import sys
from tests.storage.batches import append, open_log
from tests.storage.test_kill import CONFIGURATION, value_at
from pathlib import Path

log = open_log(Path(sys.argv[1]), CONFIGURATION)
while True:
    count = log.log_end_offset % 3 + 1
    appended = append(log, *(value_at(log.log_end_offset + at) for at in range(count)))
    sys.stdout.write(f"{appended.last_offset}\\n")
    sys.stdout.flush()
"""
CONFIGURATION = LogConfiguration(segment_bytes=50_000, index_interval_bytes=500)
REPOSITORY = Path(__file__).parents[2]
ROOMS = (REPOSITORY, REPOSITORY / "protocol", REPOSITORY / "storage")


def value_at(offset: int) -> bytes:
    return b"%d:" % offset + b"x" * (offset * 7919 % 700)


def acknowledged_before_kill(directory: Path, seconds: float) -> int:
    """Runs a process that appends, kills it and returns the last acknowledged offset."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(map(str, ROOMS))},
    ) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(seconds)
        writer.kill()
        lines = (first + writer.stdout.read()).decode().splitlines(keepends=True)
    return max(int(line) for line in lines if line.endswith("\n"))


@pytest.mark.slow
def test_a_killed_process_keeps_every_acknowledged_record_once_and_in_order(tmp_path: Path) -> None:
    chance = random.Random(1)
    for _ in range(12):
        acknowledged = acknowledged_before_kill(tmp_path, chance.random() * 0.05)
        log = open_log(tmp_path, CONFIGURATION)
        records = records_from(log, 0)
        assert len(records) > acknowledged
        assert records == [(offset, value_at(offset)) for offset in range(len(records))]
        log.abandon()
