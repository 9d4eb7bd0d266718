"""Commands printed in documents are accepted by the command line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pykbroker.cli.command_line import build_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/*/README.md")])
COMMAND: Final = re.compile(r"(?:\$ )?(?:\.venv/bin/)?pykbroker(?= |$)(?! ready| proxy ready)(.*)")
CODE: Final = re.compile(r"```[a-z]*\n.*?```|^ {4}.*$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
END: Final = re.compile(r" \\?[|>] | <<? ?|\s+#")
IS_TEMPLATE: Final = re.compile(r"[…\[(]|\bCOMMAND\b")
IS_INCOMPLETE: Final = re.compile(r"arguments are required|expected one argument")


def commands(page: Path) -> Iterator[str]:
    for code in CODE.findall(page.read_text(encoding="utf-8")):
        for line in code.strip("`").replace("\\\n", " ").splitlines():
            if found := COMMAND.match(line.strip()):
                yield END.split(found[1])[0].strip()


COMMANDS: Final = sorted(
    {it for page in PAGES for it in commands(page) if not IS_TEMPLATE.search(it)}
)


def test_commands_are_found() -> None:
    assert len(COMMANDS) >= 60
    assert "topics create trucks --partitions 10" in COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_documented_command_is_accepted(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command without its required arguments is a mention, such as `pykbroker log dump`."""
    arguments = shlex.split(command)
    if command != "--version" and (not arguments or arguments[0].startswith("-")):
        arguments = ["serve", *arguments]
    exit_code = 0
    try:
        build_parser().parse_args(arguments)
    except SystemExit as end:
        exit_code = int(end.code or 0)
    errors = capsys.readouterr().err
    assert exit_code == 0 or IS_INCOMPLETE.search(errors), errors
