"""The broker of the delivery tests: PyKBroker, or Apache Kafka to check the tests themselves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import pytest

from compat.apache import ApacheKafka
from compat.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

AGAINST_APACHE = os.environ.get("PYKBROKER_DELIVERY_BROKER") == "apache"
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
}


class Node(Protocol):
    """A broker that keeps its address and data across kills."""

    @property
    def bootstrap(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> object: ...


@pytest.fixture
def node(
    tmp_path: Path, show_on_failure: Callable[[str, Callable[[], str]], None]
) -> Iterator[Node]:
    """Starts the broker; afterwards it must stop cleanly, without a traceback in its log."""
    if AGAINST_APACHE:
        with ApacheKafka(tmp_path / "data", settings=SETTINGS) as apache:
            show_on_failure("Apache Kafka", apache.log_tail)
            yield apache
        return
    broker = BrokerProcess(tmp_path / "data", settings=SETTINGS)
    show_on_failure("broker", broker.log)
    with broker:
        yield broker
        assert broker.stop() == 0
    assert "Traceback (most recent call last)" not in broker.log()
