"""Compares the effect of group.consumer.migration.policy with Apache Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compat.apache import ApacheKafka
from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess
from tests.apis.groups import migrating
from tests.apis.groups.transcript import CONVERSATIONS
from tests.apis.test_groups_as_apache import assert_groups_answered_alike

if TYPE_CHECKING:
    from pathlib import Path

    from compat.apache import ApacheTools

NAMES = [name for name, it in CONVERSATIONS.items() if it.__module__ == migrating.__name__]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["upgrade", "downgrade", "disabled"])
def test_migration_policies_behave_like_in_apache_kafka(
    policy: str, tmp_path: Path, apache_tools: ApacheTools
) -> None:
    settings = {**SINGLE_NODE, "group.consumer.migration.policy": policy}
    with (
        ApacheKafka(
            tmp_path / "theirs", settings=settings, heap="384m", tools=apache_tools
        ) as apache,
        BrokerProcess(tmp_path / "ours", settings=settings) as pykbroker,
    ):
        for name in NAMES:
            assert_groups_answered_alike(name, apache, pykbroker)
