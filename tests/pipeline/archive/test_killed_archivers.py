"""Killed archivers never duplicate records, and store each once after a restart."""

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow.dataset
import pytest

from tests.pipeline.engine_process import WAS_KILLED, run, start

ENGINE = Path(__file__).with_name("archiving_engine.py")
BATCHES = 4
OFFSETS = BATCHES * 50
PARTITIONS = 3

CRASH_POINTS = ("STAGED:1", "RECORDED:1", "MOVED:1", "MOVED:7", "STAGED:1", "ARCHIVED:1", "MOVED:5")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def seen_by_arrow(archive: Path) -> Counter[tuple[int, int]]:
    files = pyarrow.dataset.dataset(archive, format="parquet", partitioning="hive")
    if not files.files:
        return Counter()
    table = files.to_table(columns=["partition", "offset"])
    columns = (table[name].to_pylist() for name in ("partition", "offset"))
    return Counter(zip(*columns, strict=True))


def seen_by_duckdb(archive: Path) -> Counter[tuple[int, int]]:
    """Uses the widest pattern, which matches hidden directories too."""
    if not list(archive.rglob("*.parquet")):
        return Counter()
    query = f"""SELECT partition, "offset" FROM read_parquet('{archive}/**/*.parquet')"""
    return Counter(duckdb.execute(query).fetchall())


def whole(batches: int) -> Counter[tuple[int, int]]:
    return Counter((it, offset) for it in range(PARTITIONS) for offset in range(batches * 50))


def assert_no_duplicates(archive: Path) -> None:
    for seen in (seen_by_arrow(archive), seen_by_duckdb(archive)):
        assert set(seen.values()) <= {1}


def test_archiver_killed_at_each_crash_point_archives_once(archive: Path) -> None:
    checkpoint = archive.with_name("checkpoint")
    for point in CRASH_POINTS:
        killed = run(ENGINE, archive, checkpoint, BATCHES, environment={"KILL_AT": point})
        assert killed == WAS_KILLED, point
        assert_no_duplicates(archive)
    assert run(ENGINE, archive, checkpoint, BATCHES) == 0
    assert seen_by_arrow(archive) == seen_by_duckdb(archive) == whole(BATCHES)
    staging = archive.with_name(".lake.staging")
    assert list(staging.rglob("*.parquet")) == [], "failed attempts are deleted"


@pytest.mark.parametrize("point", ["STAGED:1", "RECORDED:1", "MOVED:2"])
def test_suspended_archiver_adds_nothing_after_another_has_finished(
    archive: Path, point: str
) -> None:
    checkpoint, stopped = archive.with_name("checkpoint"), archive.with_name("stopped")
    environment = {"STOP_AT": point, "STOPPED": str(stopped)}
    with start(ENGINE, archive, checkpoint, BATCHES, environment=environment) as suspended:
        deadline = time.monotonic() + 60
        while not stopped.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert run(ENGINE, archive, checkpoint, BATCHES) == 0
        suspended.send_signal(signal.SIGCONT)
        output, _ = suspended.communicate(timeout=120)
    assert suspended.returncode == 0, output
    assert seen_by_arrow(archive) == seen_by_duckdb(archive) == whole(BATCHES)


@pytest.mark.slow
def test_archiver_killed_at_random_archives_once(archive: Path) -> None:
    """Kills at random crash points and at random times, and reads after each kill."""
    checkpoint = archive.with_name("checkpoint")
    chance = random.Random(11)
    kills = batches = 0
    kills_min = int(os.environ.get("PYKBROKER_KILLS", "2"))
    while kills < kills_min:
        batches += 3
        environment = {"KILL_PROBABILITY": str(chance.choice([0.02, 0.1, 0.2]))}
        while True:
            with start(ENGINE, archive, checkpoint, batches, environment=environment) as child:
                if chance.random() < 0.4:
                    time.sleep(chance.uniform(0.2, 0.8))
                    child.kill()
                assert_no_duplicates(archive)
                output, _ = child.communicate(timeout=240)
            if child.returncode == 0:
                break
            assert child.returncode == WAS_KILLED, output
            kills += 1
    print(f"{kills} kills, {batches * 50 * PARTITIONS} records")
    assert seen_by_arrow(archive) == seen_by_duckdb(archive) == whole(batches)
