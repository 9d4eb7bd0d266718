"""Errors and exit codes of commands. An error is printed as one line on stderr."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitCode(IntEnum):
    """Exit codes of all commands; `docs/cli.md` describes them.

    The second SIGTERM or SIGINT ends `serve` and `proxy` with 128 plus the number of the signal.
    """

    OK = 0
    FAILED = 1
    NOT_STARTED = 2
    UNVERIFIED = 3
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class CommandFailed(Exception):
    """A command failed. The message is one line."""

    exit_code = ExitCode.FAILED


class CannotBegin(CommandFailed):
    """The command is invalid or something it needs is missing. Nothing was changed."""

    exit_code = ExitCode.NOT_STARTED


class SomeFailed(CommandFailed):
    """Some parts of a request were rejected: one line each. The other parts succeeded."""

    def __init__(self, errors: list[str]) -> None:
        self.errors = errors
        super().__init__("; ".join(errors))


def raise_if_any(errors: Iterable[str]) -> None:
    """Raises SomeFailed with these error lines, unless there are none."""
    lines = list(errors)
    if lines:
        raise SomeFailed(lines)
