"""The examples of docs/testing.md run as written, and the page lists every anomaly."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pykbroker.testing.history import Anomaly

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs_as_written(example: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    if done.stdout:
        assert done.stdout.splitlines()[0] in PAGE


def test_the_page_lists_every_anomaly() -> None:
    rows = re.findall(r"^\| ([a-z, -]+) \| ", PAGE, re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} >= set(map(str, Anomaly))
