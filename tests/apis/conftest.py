"""The broker that tests compare with Apache Kafka, one for each test module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def pykbroker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("pykbroker") / "data"
    with BrokerProcess(data, settings=SINGLE_NODE) as broker:
        yield broker
