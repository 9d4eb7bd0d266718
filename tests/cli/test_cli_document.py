"""docs/cli.md agrees with the code."""

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from pykbroker.cli.command_line import read_command_line
from pykbroker.cli.command_tree import command_tree
from pykbroker.cli.failure import ExitCode

DOCUMENT: Final = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
CODE: Final = re.findall(r"^```\w*\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
EXAMPLES: Final = [
    command.partition(" #")[0]
    for block in CODE
    for line in block.splitlines()
    for command in re.findall(r"pykbroker [^|>)]*", line)
    if not line.startswith("pykbroker ready")
]


def test_all_exit_codes_are_documented() -> None:
    documented = re.findall(r"^\| (\d+) \|", DOCUMENT, re.MULTILINE)
    assert [int(code) for code in documented] == list(ExitCode)


@pytest.mark.parametrize("example", EXAMPLES)
def test_documented_commands_can_be_parsed(example: str) -> None:
    assert read_command_line(shlex.split(example)[1:]).run


def test_all_commands_are_in_the_first_table() -> None:
    table = re.findall(r"^\| (`.*?) \|", DOCUMENT.partition("\n## ")[0], re.MULTILINE)
    named = {
        word for cell in table for code in re.findall(r"`(.*?)`", cell) for word in code.split()
    }
    commands = [it.path for it in command_tree().walk() if it.path]
    assert named - {"…", "bash", "zsh", "fish"} == {
        name for path in commands for name in path if path[0] != "control"
    } | {"control"}
