"""Compares responses of Apache Kafka and PyKBroker to the same requests field by field."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apis.conversations.catalog import CONVERSATIONS
from tests.apis.transcript import Answered, Transcript, answers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat.apache import ApacheKafka
    from compat.broker_process import BrokerProcess
    from tests.apis.transcript import Plain

SUBJECTS = (
    "producing",
    "idempotence",
    "fetching",
    "fetch_sessions",
    "offsets",
    "topics",
    "describing",
    "configurations",
    "quorum",
    "moving",
    "loggers",
    "security",
    "odd_fields",
)
for module in SUBJECTS:
    import_module(f"tests.apis.conversations.{module}")

KNOWN_DIFFERENCES = Path(__file__).parents[2].joinpath("compat/known_differences.md").read_text()


def answers(port: int, name: str, now_ms: int) -> list[Answered]:
    broker = Transcript(port, name.replace("_", "-"), now_ms)
    return answers_of(broker, CONVERSATIONS[name])


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_responses_equal_those_of_apache_kafka(
    name: str, apache: ApacheKafka, pykbroker: BrokerProcess
) -> None:
    now_ms = time.time_ns() // 1_000_000
    theirs = answers(apache.port, name, now_ms)
    ours = answers(pykbroker.port, name, now_ms)
    assert_answered_alike(ours, theirs)


def assert_answered_alike(ours: list[Answered], theirs: list[Answered]) -> None:
    """Except for the listed differences, all of which must exist."""
    assert [it.question for it in ours] == [it.question for it in theirs]
    unlike = [(our, their) for our, their in zip(ours, theirs, strict=True) if our != their]
    surprising = [(our, their) for our, their in unlike if not our.known_difference]
    assert not surprising, differences(surprising)
    assert {our.known_difference for our, _ in unlike} == {
        it.known_difference for it in ours if it.known_difference
    }, "a difference is listed that is none"
    assert all(f"## {our.known_difference}\n" in KNOWN_DIFFERENCES for our, _ in unlike)


def differences(differing: list[tuple[Answered, Answered]]) -> str:
    lines = [f"{len(differing)} answers differ"]
    for our, their in differing:
        lines.append(our.question)
        lines += [f"    {line}" for line in unlike_places("", our.answer, their.answer)]
    return "\n".join(lines)


def unlike_places(path: str, our: Plain, their: Plain) -> Iterator[str]:
    """Yields the innermost paths at which two responses differ."""
    if isinstance(our, dict) and isinstance(their, dict) and our.keys() == their.keys():
        for key, value in our.items():
            yield from unlike_places(f"{path}.{key}", value, their[key])
    elif isinstance(our, list) and isinstance(their, list) and len(our) == len(their):
        for index, value in enumerate(our):
            yield from unlike_places(f"{path}[{index}]", value, their[index])
    elif our != their:
        yield f"{path}: {our!r}, Apache: {their!r}"
