"""The first steps of the README work as printed, in a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from compat.missing_tool import find_program

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT: Final = Path(__file__).parents[2]
README: Final = CHECKOUT.joinpath("README.md").read_text(encoding="utf-8")
EXAMPLE: Final = "examples/truck_positions.py"
DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
READY: Final = re.compile(r"pykbroker ready bootstrap=(\S+) node=1 cluster=\S+ in \S+ s\n")


def commands_of(terminal: str) -> str:
    """Returns the shell commands of the README that are marked for this terminal."""
    mark = r"<!-- run by tests/end_to_end/test_readme\.py: " + terminal + r"[^>]* -->"
    return "".join(re.findall(mark + r"\n```sh\n(.*?)```", README, re.DOTALL))


def output_of_the_example() -> str:
    found = re.search(r"```\n(dashboard: .*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Links to the files of the checkout and of its environment, with copies of those that change.

    The Makefile listens on a free port. The packages are not installed again.
    """
    if sys.prefix == sys.base_prefix:
        pytest.skip("the tests do not run in a virtual environment")
    copy = tmp_path / "checkout"
    for source, target in ((CHECKOUT, copy), (Path(sys.prefix), copy / ".venv")):
        target.mkdir()
        for entry in source.iterdir():
            if entry.name not in {".git", ".venv", ".installed", "pykbroker-data", "examples"}:
                target.joinpath(entry.name).symlink_to(entry)
    copy.joinpath("examples").mkdir()
    shutil.copy(CHECKOUT / EXAMPLE, copy / EXAMPLE)
    copy.joinpath(".venv/.installed").touch()
    replace_address(copy / "Makefile", "127.0.0.1:0")
    return copy


def replace_address(path: Path, address: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert DEFAULT_ADDRESS in text
    path.unlink()
    path.write_text(text.replace(DEFAULT_ADDRESS, address), encoding="utf-8")


@pytest.fixture
def bootstrap(checkout: Path) -> Iterator[str]:
    """The address of a broker that the commands for the first terminal have started."""
    find_program("make")
    terminal = subprocess.Popen(
        ["bash", "-c", commands_of("terminal 1")],
        cwd=checkout,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert terminal.stdout is not None
    try:
        ready = next(filter(None, map(READY.fullmatch, terminal.stdout)), None)
        assert ready is not None, "the broker did not start"
        yield ready[1]
    finally:
        os.killpg(terminal.pid, signal.SIGINT)
        terminal.stdout.close()
        terminal.wait(30)


def test_first_steps_work_as_printed(checkout: Path, bootstrap: str) -> None:
    replace_address(checkout / EXAMPLE, bootstrap)
    done = subprocess.run(
        ["bash", "-e", "-c", commands_of("terminal 2")],
        cwd=checkout,
        env={**os.environ, "PYKBROKER_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert output_of_the_example() in done.stdout
    assert re.search(r"^trucks +\d+ +\d+ +\d+ +0 ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r'^truck-\d+\t{"truck": \d+, ', done.stdout, re.MULTILINE), done.stdout


def test_the_printed_program_is_the_example() -> None:
    printed = re.search(rf"<!-- same as {EXAMPLE} -->\n```python\n(.*?)```", README, re.DOTALL)
    assert printed is not None
    assert printed[1] == CHECKOUT.joinpath(EXAMPLE).read_text(encoding="utf-8")
