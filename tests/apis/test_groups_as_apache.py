"""Compares group responses of Apache Kafka and PyKBroker."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.apis.groups.transcript import CONVERSATIONS, GroupTranscript
from tests.apis.test_answers_as_apache import assert_answered_alike
from tests.apis.transcript import answers_of

if TYPE_CHECKING:
    from compat.apache import ApacheKafka
    from compat.broker_process import BrokerProcess
    from tests.apis.transcript import Answered

ATTEMPTS_MAX = 3
SUBJECTS = (
    "membership",
    "static_members",
    "unknown_members",
    "deadlines",
    "offsets",
    "administering",
    "consumer_groups",
    "migrating",
    "configured",
    "transactions",
)
for module in SUBJECTS:
    import_module(f"tests.apis.groups.{module}")


def answers(port: int, name: str, attempt: int, now_ms: int) -> list[Answered]:
    again = f"-{attempt}" if attempt else ""
    broker = GroupTranscript(port, name.replace("_", "-") + again, now_ms)
    return answers_of(broker, CONVERSATIONS[name])


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_group_responses_equal_those_of_apache_kafka(
    name: str, apache: ApacheKafka, pykbroker: BrokerProcess
) -> None:
    assert_groups_answered_alike(name, apache, pykbroker)


def assert_groups_answered_alike(name: str, apache: ApacheKafka, pykbroker: BrokerProcess) -> None:
    """Repeats the conversation if Apache Kafka's timers or metadata updates were late."""
    for attempt in range(ATTEMPTS_MAX):
        theirs, ours = ask_both(name, attempt, apache, pykbroker)
        with suppress(AssertionError):
            assert_answered_alike(ours, theirs)
            return
    assert_answered_alike(ours, theirs)


def ask_both(
    name: str, attempt: int, apache: ApacheKafka, pykbroker: BrokerProcess
) -> list[list[Answered]]:
    now_ms = time.time_ns() // 1_000_000
    with ThreadPoolExecutor() as both:
        futures = [
            both.submit(answers, port, name, attempt, now_ms)
            for port in (apache.port, pykbroker.port)
        ]
    return [it.result() for it in futures]
