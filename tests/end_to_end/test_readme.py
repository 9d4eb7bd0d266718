"""The code of the README does what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.end_to_end.conftest import StartBroker

README = Path(__file__).parents[2] / "README.md"


def python_of_the_readme() -> str:
    found = re.search(r"<!-- run by .*? -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def output_of_the_readme() -> str:
    found = re.search(r"```\n(dashboard: .*?)\n```", README.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_truck_fleet_of_the_readme_runs_as_written(start_broker: StartBroker) -> None:
    broker = start_broker("--topic", "trucks:10")
    program = python_of_the_readme().replace("127.0.0.1:9092", broker.bootstrap)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == output_of_the_readme()
