"""Killing driver, JVM and workers of Spark neither loses nor duplicates records."""

import os
import random
import time
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from pykbroker import Broker
from pykbroker.pipeline.java import find_java
from tests.pipeline.crash_hook import kill_session
from tests.pipeline.engine_process import WAS_KILLED, start

ENGINE = Path(__file__).with_name("spark_engine.py")
KILLS = int(os.environ.get("PYKBROKER_KILLS", "0"))
RECORDS = 10_000
CRASH_POINTS = (
    "PRODUCING:500",
    "PRODUCED:1",
    "MARKED:1",
    "PUBLISHED:1",
    "RETURNED:1",
    "STAGED:2",
    "RECORDED:2",
    "MOVED:2",
    "KEPT:2",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.asked_for_by("PYKBROKER_KILLS"),  # each kill takes a start of Spark
]


def has_ended(
    bootstrap: str, directory: Path, *, point: str | None = None, after_s: float | None = None
) -> bool:
    """Runs the engine; returns true if it ended without a kill."""
    environment = {"KILL_ALL": "1"} | ({"KILL_AT": point} if point else {})
    with start(ENGINE, bootstrap, directory, environment=environment) as child:
        if after_s is not None:
            time.sleep(after_s)
            kill_session(child.pid)
        output, _ = child.communicate(timeout=240)
    assert child.returncode in {0, WAS_KILLED}, output
    return child.returncode == 0


def test_spark_killed_at_crash_points_and_random_times_writes_once(
    kafka: Broker, tmp_path: Path
) -> None:
    assert find_java() is not None
    kafka.create_topics({"in": 5, "out": 5})
    kafka.produce("in", [b"%d" % number for number in range(RECORDS)])
    chance = random.Random(3)
    for kill in range(KILLS):
        if kill < len(CRASH_POINTS):
            assert not has_ended(kafka.bootstrap, tmp_path, point=CRASH_POINTS[kill])
        else:
            has_ended(kafka.bootstrap, tmp_path, after_s=chance.uniform(6, 25))
        assert_no_duplicates(kafka, tmp_path)
        kafka.produce("in", [b"%d" % (RECORDS * (kill + 1) + number) for number in range(RECORDS)])
    assert has_ended(kafka.bootstrap, tmp_path)
    expected = Counter(b"%d" % number for number in range(RECORDS * (KILLS + 1)))
    assert published(kafka) == archived(tmp_path) == expected


def assert_no_duplicates(kafka: Broker, directory: Path) -> None:
    assert set(published(kafka).values()) <= {1}
    assert set(archived(directory).values()) <= {1}


def published(kafka: Broker) -> Counter[bytes | None]:
    return Counter(record.value for record in kafka.records("out"))


def archived(directory: Path) -> Counter[bytes | None]:
    if not list((directory / "lake").rglob("*.parquet")):
        return Counter()
    query = f"SELECT value FROM read_parquet('{directory}/lake/**/*.parquet')"
    return Counter(value for (value,) in duckdb.execute(query).fetchall())
