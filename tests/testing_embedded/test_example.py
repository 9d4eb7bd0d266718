"""The example projects pass their tests with the installed package only."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted({it.parent for it in ROOT.glob("examples/*/test_*.py")})


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda it: it.name)
def test_an_example_passes_its_tests(example: Path, tmp_path: Path) -> None:
    for file in example.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    plugins = ["-p", "pykbroker.testing.plugin", "-p", "no:asyncio", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *plugins],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.slow
def test_an_example_passes_a_strict_type_checker() -> None:
    for example in EXAMPLES:
        checked = subprocess.run(
            [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "."],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=example,
            env={"PATH": "", "MYPYPATH": f"{ROOT}:{ROOT}/protocol:{ROOT}/storage"},
        )
        assert checked.returncode == 0, checked.stdout
