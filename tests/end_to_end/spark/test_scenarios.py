"""Spark's connector has the same results with PyKBroker and Apache Kafka."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.spark.scenario import SCENARIOS, Scenario
from tests.end_to_end.spark.spark_fixture import SparkFixture

SIDE_BY_SIDE = "PYKBROKER_SPARK_SIDE_BY_SIDE"
"""File for the table of all scenarios; if unset, only the quick scenarios run."""

Note = Callable[[str, dict[str, object]], None]


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario", [it for it in SCENARIOS if it.is_quick], ids=lambda scenario: scenario.name
)
def test_result_is_the_one_known_from_apache_kafka(
    scenario: Scenario, spark_fixture: SparkFixture
) -> None:
    assert scenario.act(spark_fixture) == scenario.expected


@pytest.fixture(scope="session")
def note() -> Iterator[Note]:
    """Collects results and writes them as a table."""
    lines = ["| scenario | PyKBroker | Apache Kafka |", "|---|---|---|"]

    def add(name: str, outcomes: dict[str, object]) -> None:
        lines.append(f"| {name} | `{outcomes['pykbroker']}` | `{outcomes['apache']}` |")

    yield add
    table = Path(os.environ[SIDE_BY_SIDE])
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text("\n".join(lines) + "\n")


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.asked_for_by(SIDE_BY_SIDE)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_result_is_the_same_with_either_broker(
    scenario: Scenario, spark_fixtures: dict[str, SparkFixture], note: Note
) -> None:
    outcomes = {name: scenario.act(fixture) for name, fixture in spark_fixtures.items()}
    note(scenario.name, outcomes)
    assert outcomes == dict.fromkeys(spark_fixtures, scenario.expected)
