"""A missing tool skips the tests that need it and fails them in CI."""

import pytest

from tests import conftest

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.conftest import *
"""
TESTS = """
import pytest
from compat.missing_tool import MissingToolError, find_program

@pytest.fixture(scope="session")
def registry():
    raise MissingToolError("mvn", "Maven cannot download it:\\nno route to host")

@pytest.mark.parametrize("number", range(3))
def test_with_registry(registry, number): ...

def test_with_compiler():
    find_program("no-such-compiler", "nor-this-one")

def test_without_tools(): ...

def test_skipped():
    pytest.skip("not on this machine")
"""


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str) -> pytest.RunResult:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    monkeypatch.setenv("CI", ci)
    root = conftest.__file__.removesuffix("/tests/conftest.py")
    return pytester.runpytest_subprocess("-n", "2", "-o", f"pythonpath={root}")


def test_each_missing_tool_gets_one_line_with_the_number_of_skipped_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(pytester, monkeypatch, ci="")
    result.assert_outcomes(passed=1, skipped=5)
    result.stdout.fnmatch_lines(
        [
            "*tools missing on this machine*",
            "mvn: 3 tests skipped (Maven cannot download it: no route to host)",
            "no-such-compiler: 1 test skipped (`no-such-compiler` is not on the PATH)",
        ],
        consecutive=True,
    )


def test_missing_tool_fails_the_test_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(pytester, monkeypatch, ci="true")
    result.assert_outcomes(passed=1, skipped=1, failed=1, errors=3)
    result.stdout.fnmatch_lines(["mvn: Maven cannot download it*"])
    result.stdout.no_fnmatch_line("*tools missing on this machine*")
