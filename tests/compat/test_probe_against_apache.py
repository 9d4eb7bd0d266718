"""PyKBroker and Apache Kafka are asked every field at its boundaries, and part where they may."""

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

QUESTIONS_MIN = 1_900
"""Else something was left out."""


@pytest.mark.oracle
def test_they_part_where_it_is_told_and_nowhere_else(
    tmp_path: Path, apache_tools: ApacheTools
) -> None:
    """Both are new: what other tests have left in a cluster would differ."""
    with (
        BrokerProcess(tmp_path / "ours", settings=SINGLE_NODE) as ours,
        ApacheKafka(tmp_path / "theirs", heap="384m", tools=apache_tools) as theirs,
    ):
        compared = compare(("127.0.0.1", ours.port), ("127.0.0.1", theirs.port))
    allowed = read_allowed()
    assert not list(difference_lines(compared.unexpected(allowed)))
    assert not list(unused_places(allowed, compared.differences_found)), (
        "no difference is there any more"
    )
    assert not compared.only_left
    assert compared.questions > QUESTIONS_MIN
