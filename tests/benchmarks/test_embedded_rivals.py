"""Output of the comparison of brokers for tests."""

import pytest

from benchmarks.embedded_rivals.__main__ import misses, shown
from benchmarks.embedded_rivals.cases import IDLE, RESET, START, Case, Found


@pytest.mark.parametrize(
    ("case", "number", "text"),
    [
        (START, None, "-"),
        (START, 0.0584, "0.058 ms"),
        (START, 3.45, "3.5 ms"),
        (START, 3200.4, "3,200 ms"),
        (IDLE, 30.2, "30 MB"),
    ],
)
def test_numbers_are_rounded_to_two_digits(case: Case, number: float | None, text: str) -> None:
    assert shown(case, number) == text


@pytest.mark.parametrize(
    ("own", "apache", "sentences"),
    [
        ({START: 49.0, RESET: 4.9, IDLE: 30.0}, 240.0, []),
        ({START: 51.0, RESET: 5.0, IDLE: 30.0}, 240.0, ["start in the process, after import"]),
        ({START: 49.0, RESET: 4.9, IDLE: 30.1}, 240.0, ["idle memory"]),
    ],
)
def test_missed_bars_are_reported(
    own: dict[Case, float], apache: float, sentences: list[str]
) -> None:
    found = {
        "PyKBroker": Found(numbers=own),
        "Apache Kafka 4.3.1": Found(numbers={IDLE: apache}),
    }
    assert [it.partition(":")[0] for it in misses(found)] == sentences
