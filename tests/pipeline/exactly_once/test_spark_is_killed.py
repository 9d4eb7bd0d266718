"""Spark is killed as a whole, driver and JVM and workers, and each record is there once."""

import os
import random
import time
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from pykbroker import Broker
from pykbroker.pipeline.java import find_java
from tests.pipeline.child import WAS_KILLED, start
from tests.pipeline.killer import kill_session

ENGINE = Path(__file__).with_name("spark_engine.py")
KILLS = int(os.environ.get("PYKBROKER_KILLS", "0"))
RECORDS = 10_000
MOMENTS = (
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


def run_until_it_ends(
    bootstrap: str, directory: Path, *, moment: str | None = None, after_s: float | None = None
) -> bool:
    """Whether it came to its end, and was not killed."""
    environment = {"KILL_ALL": "1"} | ({"KILL_AT": moment} if moment else {})
    with start(ENGINE, bootstrap, directory, environment=environment) as child:
        if after_s is not None:
            time.sleep(after_s)
            kill_session(child.pid)
        words, _ = child.communicate(timeout=240)
    assert child.returncode in {0, WAS_KILLED}, words
    return child.returncode == 0


def test_killed_at_each_moment_and_at_any_time(kafka: Broker, tmp_path: Path) -> None:
    assert find_java() is not None
    kafka.create_topics({"in": 5, "out": 5})
    kafka.produce("in", [b"%d" % number for number in range(RECORDS)])
    chance = random.Random(3)
    for kill in range(KILLS):
        if kill < len(MOMENTS):
            assert not run_until_it_ends(kafka.bootstrap, tmp_path, moment=MOMENTS[kill])
        else:
            run_until_it_ends(kafka.bootstrap, tmp_path, after_s=chance.uniform(6, 25))
        assert_no_doubles(kafka, tmp_path)
        kafka.produce("in", [b"%d" % (RECORDS * (kill + 1) + number) for number in range(RECORDS)])
    assert run_until_it_ends(kafka.bootstrap, tmp_path)
    wanted = Counter(b"%d" % number for number in range(RECORDS * (KILLS + 1)))
    assert published(kafka) == archived(tmp_path) == wanted


def assert_no_doubles(kafka: Broker, directory: Path) -> None:
    assert set(published(kafka).values()) <= {1}
    assert set(archived(directory).values()) <= {1}


def published(kafka: Broker) -> Counter[bytes | None]:
    return Counter(record.value for record in kafka.records("out"))


def archived(directory: Path) -> Counter[bytes | None]:
    if not list((directory / "lake").rglob("*.parquet")):
        return Counter()
    query = f"SELECT value FROM read_parquet('{directory}/lake/**/*.parquet')"
    return Counter(value for (value,) in duckdb.execute(query).fetchall())
