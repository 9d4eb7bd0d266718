"""A broker that may be killed: ours, or Apache Kafka to see what the relays are worth."""

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
    """A broker that keeps its address and its data when it is killed and started."""

    @property
    def bootstrap(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> object: ...


@pytest.fixture
def node(
    tmp_path: Path, show_on_failure: Callable[[str, Callable[[], str]], None]
) -> Iterator[Node]:
    """Afterwards it must end cleanly, and must not have stumbled on the way."""
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
