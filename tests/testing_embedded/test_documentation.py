"""The examples of docs/embedded.md and README.md run as written and pass a strict type checker."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow  # each starts a pytest or a mypy

ROOT = Path(__file__).parents[2]
OURS = "<!-- run by tests/testing_embedded/test_documentation.py -->"
PAGES = (ROOT / "docs/embedded.md").read_text() + (ROOT / "README.md").read_text().partition(OURS)[
    2
]
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGES, re.DOTALL)
PROGRAMS = [it for it in EXAMPLES if "def test_" not in it]
TEST_MODULES = [it for it in EXAMPLES if "def test_" in it]


def test_the_pages_have_programs_and_test_modules() -> None:
    assert len(PROGRAMS) >= 7
    assert len(TEST_MODULES) == 2


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_on_the_pages_runs(program: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("module", TEST_MODULES)
def test_the_tests_on_the_pages_pass(module: str, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(module)
    options = ("-p", "pykbroker.testing.plugin", "-p", "no:cacheprovider")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=module.count("def test_"))


def test_the_examples_pass_a_strict_type_checker(tmp_path: Path) -> None:
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"example_{number}.py").write_text(example)
    settings = ["--strict", "--config-file", str(ROOT / "pyproject.toml")]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, *map(str, tmp_path.glob("*.py"))],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
    )
    assert checked.returncode == 0, checked.stdout
