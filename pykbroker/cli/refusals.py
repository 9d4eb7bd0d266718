"""Turns the error codes inside answers into what people read."""

from __future__ import annotations

from typing import Final

from pykbroker.cli.failure import Refused
from pykbroker_protocol.errors import ErrorCode

ERRORS: Final = {code.value: code for code in ErrorCode}


def error_of(error_code: int) -> ErrorCode:
    """The error of a number; one that is newer than this program counts as unknown."""
    return ERRORS.get(error_code, ErrorCode.UNKNOWN_SERVER_ERROR)


def raise_if_refused(error_code: int, message: str | None = None) -> None:
    if error_code:
        raise Refused(error_of(error_code), message)


def refusal(subject: str, error_code: int, message: str | None = None) -> str:
    """One line about one thing that was refused."""
    return f"{subject}: {Refused(error_of(error_code), message)}"
