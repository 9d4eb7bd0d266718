"""Compares transaction responses of Apache Kafka and PyKBroker."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.apis.test_answers_as_apache import assert_answered_alike
from tests.apis.transactions.transcript import CONVERSATIONS, TransactionTranscript
from tests.apis.transcript import answers_of

if TYPE_CHECKING:
    from compat.apache import ApacheKafka
    from compat.broker_process import BrokerProcess
    from tests.apis.transcript import Answered

SUBJECTS = ("coordinating", "administering", "marking", "writing", "features")
for module in SUBJECTS:
    import_module(f"tests.apis.transactions.{module}")


def answers(port: int, name: str, now_ms: int) -> list[Answered]:
    broker = TransactionTranscript(port, name.replace("_", "-"), now_ms)
    return answers_of(broker, CONVERSATIONS[name])


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_transaction_responses_equal_those_of_apache_kafka(
    name: str, apache: ApacheKafka, pykbroker: BrokerProcess
) -> None:
    now_ms = time.time_ns() // 1_000_000
    with ThreadPoolExecutor() as both:
        futures = [
            both.submit(answers, port, name, now_ms) for port in (apache.port, pykbroker.port)
        ]
    theirs, ours = (it.result() for it in futures)
    assert_answered_alike(ours, theirs)
