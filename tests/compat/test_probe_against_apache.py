"""Responses of PyKBroker and Apache Kafka to boundary values differ only where allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compat.apache import ApacheKafka
from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess
from compat.probe.allowed import read_allowed, unused_places
from compat.probe.comparison import compare, difference_lines

if TYPE_CHECKING:
    from pathlib import Path

    from compat.apache import ApacheTools

REQUESTS_MIN = 1_900
"""Fewer requests mean that APIs were skipped."""


@pytest.mark.oracle
def test_differences_are_exactly_the_allowed_ones(
    tmp_path: Path, apache_tools: ApacheTools
) -> None:
    """Both clusters are new, because topics of other tests would be differences."""
    with (
        BrokerProcess(tmp_path / "ours", settings=SINGLE_NODE) as ours,
        ApacheKafka(tmp_path / "theirs", heap="384m", tools=apache_tools) as theirs,
    ):
        compared = compare(("127.0.0.1", ours.port), ("127.0.0.1", theirs.port))
    allowed = read_allowed()
    assert not list(difference_lines(compared.unexpected(allowed)))
    assert not list(unused_places(allowed, compared.differences_found)), (
        "allowed, but there is no difference"
    )
    assert not compared.only_left
    assert compared.requests > REQUESTS_MIN
