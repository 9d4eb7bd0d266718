"""The examples of docs/simulation.md run as written, and the page names the public classes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pykbroker.testing import simulation

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = [it for it in EXAMPLES if "def test_" not in it]
(TESTS,) = [it for it in EXAMPLES if "def test_" in it]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_on_the_page_runs(program: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_kafka_seed_selects_a_single_seed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    options = ("-p", "pykbroker.testing.plugin", "-p", "no:cacheprovider")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=3)
    result = pytester.runpytest_subprocess(*options, "--kafka-seed=43", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*[[]43[]]*"])


def test_the_page_names_the_public_classes() -> None:
    for name in ("Simulation", "SimulatedNode", "Kind", "Link", "SURVIVABLE", "seeds"):
        assert hasattr(simulation, name)
        assert name in PAGE
