"""The ways in which a command fails: each ends as one line on stderr and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pykbroker_protocol.errors import ErrorCode

EXIT_REFUSED: Final = 1
EXIT_CANNOT_START: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141


class CommandFailed(Exception):
    """A command could not do what it was asked to; the message says why, in one line."""

    exit_code = EXIT_REFUSED


class CannotBegin(CommandFailed):
    """The command is wrong, or what it needs is not there: nothing was done."""

    exit_code = EXIT_CANNOT_START


class Refused(CommandFailed):
    """A broker said no."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        super().__init__(f"{code.name}: {message or code.sentence}")


class RefusedEach(CommandFailed):
    """Some of several things were refused: one line each, the others are done."""

    def __init__(self, refusals: list[str]) -> None:
        self.refusals = refusals
        super().__init__("; ".join(refusals))
