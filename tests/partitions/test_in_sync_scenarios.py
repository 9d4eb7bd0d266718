"""Drawn scenarios of high watermark and in-sync set; `leader_script` describes their commands.

PYKBROKER_RENEW=1 writes the states that are reached into the files, for review.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.partitions.leader_script import replay

SCENARIOS = sorted((Path(__file__).parent / "in_sync_scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda it: it.stem)
def test_leader_reaches_the_drawn_states(path: Path) -> None:
    reached = replay(path)
    if os.environ.get("PYKBROKER_RENEW"):
        path.write_text(reached)
    assert reached == path.read_text()
