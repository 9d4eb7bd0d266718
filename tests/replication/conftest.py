"""Fixtures of the tests of followers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.replication.nodes import Follower, following
from tests.replication.scripted_leader import ScriptedLeader, scripted_leader


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[ScriptedLeader]:
    async with scripted_leader(tmp_path) as leader:
        yield leader


@pytest.fixture
async def follower(tmp_path: Path, leader: ScriptedLeader) -> AsyncIterator[Follower]:
    async with following(tmp_path / "copy") as follower:
        follower.know(1, leader.port)
        yield follower
