"""Errors of client requests. Each message is one line that names the broker or the error code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

ERROR_CODES: Final = {code.value: code for code in ErrorCode}


class ClientError(Exception):
    """A request failed."""


class InvalidRequest(ClientError):
    """The request cannot be encoded. Nothing was sent."""


class ConnectionFailed(ClientError):
    """The broker was not reached or did not respond; it may have executed the request."""


class Disconnected(ConnectionFailed):
    """There is no connection, or it was closed before the response arrived."""


class TimedOut(ConnectionFailed):
    """The broker did not accept the connection or did not respond in time."""


class InvalidResponse(ClientError):
    """The broker violated the protocol. The connection is closed; a retry would not help."""


class ApiError(ClientError):
    """A response, or a part of it, has an error code."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        super().__init__(f"{code.name}: {message or code.sentence}")


def error_of(error_code: int) -> ErrorCode:
    """Returns the error of a number; UNKNOWN_SERVER_ERROR if a newer protocol defines it."""
    return ERROR_CODES.get(error_code, ErrorCode.UNKNOWN_SERVER_ERROR)


def raise_if_error(error_code: int, message: str | None = None) -> None:
    if error_code:
        raise ApiError(error_of(error_code), message)


def only(elements: Sequence[T], name: str) -> T:
    """Returns the element of a response array that must have one element, as the request had."""
    if len(elements) != 1:
        raise InvalidResponse(f"response has {len(elements)} {name}, expected 1")
    return elements[0]
