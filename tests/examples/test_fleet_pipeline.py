"""The pipeline computes the same results from reports as a few lines of Python."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset
import pytest

from examples.fleet.alerts import SILENCE, decode
from examples.fleet.geography import ZONES
from examples.fleet.reports import TRUCKS, BrokenReport, Report, in_milliseconds
from examples.fleet.reports import decode as decode_report
from examples.fleet.simulator import Plan, transmissions
from examples.fleet.topics import ALERTS, BROKEN, PARTITIONS, STATISTICS
from pykbroker import Row
from pykbroker.pipeline.declaration.reading import read_pipeline
from tests.examples.fleet_rows import TOPICS

if TYPE_CHECKING:
    from pykbroker import Broker

PIPELINE = Path(__file__).parents[2] / "examples/fleet/pipeline.toml"
QUICK_JVM = '{ "driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" }'
GAP = timedelta(seconds=65)
WINDOW = timedelta(minutes=5)
STILL_OPEN = timedelta(minutes=3)
"""Newer results may still wait for the watermark."""


@dataclass
class Expected:
    """Results computed from the reports without Spark."""

    broken: int = 0
    silences: set[tuple[str, datetime]] = field(default_factory=set)
    visits: set[tuple[str, str, datetime]] = field(default_factory=set)
    windows: dict[tuple[str, datetime], list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )


def expected_of(sent: list[Row], now: datetime) -> Expected:
    expected, by_truck = Expected(), defaultdict(list)
    for row in sent:
        report = read(row)
        if report is None:
            expected.broken += 1
            continue
        by_truck[report.truck_id].append(report)
        start = (
            report.reported_at - (report.reported_at - datetime.min.replace(tzinfo=UTC)) % WINDOW
        )
        expected.windows[report.truck_id, start].append(report.kmh)
        expected.visits |= {
            (report.truck_id, zone.name, report.reported_at)
            for zone in ZONES
            if zone.contains(report.position)
        }
    for truck, reports in by_truck.items():
        times = [it.reported_at for it in reports]
        expected.silences |= {(truck, a) for a, b in pairwise([*times, now]) if b - a >= GAP}
    return expected


def read(row: Row) -> Report | None:
    assert isinstance(row.value, bytes)
    try:
        return decode_report(row.value)
    except BrokenReport:
        return None


def simulated(minutes: int) -> list[Row]:
    """Returns reports up to now, without those with an invalid position, which Spark accepts."""
    now = datetime.now(UTC).replace(microsecond=0)
    departure = now - timedelta(minutes=minutes)
    plan = Plan(trucks=40, broken_share=0.02, reporting_minutes=(4, 8), silence_minutes=(2, 5))
    rows: list[Any] = []
    for sent in transmissions(plan, departure):
        if sent.at > now:
            return rows
        if b"4811.5" not in sent.value:
            at_ms = in_milliseconds(sent.at)
            rows.append(Row(sent.value, key=sent.truck_id, timestamp_ms=at_ms))
    raise AssertionError


def run_pipeline(kafka: Broker, directory: Path) -> None:
    """Runs the pipeline in a JVM with fast compilation."""
    declaration = directory / PIPELINE.name
    declaration.write_text(f"spark = {QUICK_JVM}\n{PIPELINE.read_text()}")
    command = [sys.executable, "-m", "pykbroker", "pipeline", "run", str(declaration), "--once"]
    ran = subprocess.run(
        [*command, "--bootstrap", kafka.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark_jars")
@pytest.mark.kafka(topics=TOPICS)
def test_pipeline_computes_the_expected_results(kafka: Broker, tmp_path: Path) -> None:
    sent = simulated(minutes=30)
    kafka.produce(TRUCKS, sent)
    newest = max(datetime.fromtimestamp((it.timestamp_ms or 0) / 1000, UTC) for it in sent)
    expected = expected_of(sent, newest)
    run_pipeline(kafka, tmp_path)

    archive = pyarrow.dataset.dataset(tmp_path / "fleet-data/archive", format="parquet")
    records = archive.to_table(columns=["partition", "offset"]).to_pylist()
    assert len(records) == len(sent)
    assert len({(it["partition"], it["offset"]) for it in records}) == len(sent)

    assert len(kafka.records(BROKEN)) == expected.broken > 0

    partitions_of_trucks = {(it.key, it.partition) for it in kafka.records(TRUCKS)}
    assert {(it.key, it.partition) for it in kafka.records(ALERTS)} <= partitions_of_trucks

    alerts = [decode(it.value) for it in kafka.records(ALERTS)]
    visits = {(it.truck_id, it.subject, it.at) for it in alerts if it.subject != SILENCE}
    assert visits == expected.visits != set()
    silences = {(it.truck_id, it.at) for it in alerts if it.subject == SILENCE}
    assert silences <= expected.silences
    assert {it for it in expected.silences if it[1] < newest - STILL_OPEN} <= silences != set()

    statistics = {
        (it["truck_id"], datetime.fromisoformat(it["window_start"])): it
        for it in (record.json() for record in kafka.records(STATISTICS))
    }
    closed = {it for it in expected.windows if it[1] + WINDOW < newest - STILL_OPEN}
    assert closed <= statistics.keys() <= expected.windows.keys()
    for name, statistic in statistics.items():
        speeds = expected.windows[name]
        assert statistic["reports"] == len(speeds)
        assert statistic["average_kmh"] == pytest.approx(sum(speeds) / len(speeds), abs=0.051)
        assert statistic["top_kmh"] == max(speeds)


def test_pipeline_uses_the_topics_of_the_fleet() -> None:
    pipeline = read_pipeline(PIPELINE)
    (source,) = pipeline.source.values()
    named = {*source.topics, source.dead_letters, *(it.topic for it in pipeline.sink.values())}
    assert named == {TRUCKS, BROKEN, STATISTICS, ALERTS}
    assert named <= PARTITIONS.keys()


def test_closed_zones_of_pipeline_and_map_are_equal() -> None:
    number = r"([\d.]+)D"
    found = re.findall(rf"\('(\w+)', {number}, {number}, {number}\)", PIPELINE.read_text())
    zones = [(it.name, it.center.lat, it.center.lon, it.radius_km) for it in ZONES]
    assert [(name, *map(float, numbers)) for name, *numbers in found] == zones


def test_reports_and_alerts_have_equal_partition_counts() -> None:
    """Otherwise a service could get the alerts of a truck without its reports."""
    assert PARTITIONS[TRUCKS] == PARTITIONS[ALERTS]
