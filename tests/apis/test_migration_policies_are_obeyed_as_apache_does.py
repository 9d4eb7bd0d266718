"""Where the operator closes a way between the protocols, both brokers answer alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compat.apache import ApacheKafka
from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess
from tests.apis.groups import migrating
from tests.apis.groups.interview import CONVERSATIONS
from tests.apis.test_groups_answer_as_apache import assert_groups_answered_alike

if TYPE_CHECKING:
    from pathlib import Path

    from compat.apache import ApacheTools

NAMES = [name for name, it in CONVERSATIONS.items() if it.__module__ == migrating.__name__]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["upgrade", "downgrade", "disabled"])
def test_a_migration_policy_is_obeyed_as_apache_does(
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
