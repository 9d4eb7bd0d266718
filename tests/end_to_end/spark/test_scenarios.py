"""Spark's own connector, unchanged, finds in PyKBroker what it finds in Apache Kafka."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.spark.scenario import SCENARIOS, Scenario
from tests.end_to_end.spark.stage import Stage

SIDE_BY_SIDE = "PYKBROKER_SPARK_SIDE_BY_SIDE"
"""Names the file to write the outcomes of all scenarios to; without it few of them run."""

Note = Callable[[str, dict[str, object]], None]


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario", [it for it in SCENARIOS if it.is_quick], ids=lambda scenario: scenario.name
)
def test_spark_finds_what_it_is_known_to_find_in_apache_kafka(
    scenario: Scenario, stage: Stage
) -> None:
    assert scenario.act(stage) == scenario.expected


@pytest.fixture(scope="session")
def note() -> Iterator[Note]:
    """Writes a table of what came of each scenario with either broker."""
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
def test_spark_finds_the_same_in_either_broker(
    scenario: Scenario, stages: dict[str, Stage], note: Note
) -> None:
    outcomes = {name: scenario.act(stage) for name, stage in stages.items()}
    note(scenario.name, outcomes)
    assert outcomes == dict.fromkeys(stages, scenario.expected)
