"""The result of one request: its response and the new states of the transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.coordination.transactions.transaction import Transaction
    from pykbroker_protocol.message import Message


class Step(NamedTuple):
    response: Message
    new_states: tuple[Transaction, ...] = ()
    """The states it passes through, written as one batch."""
    reason: str | None = None


def refusal_of_unknown(transactional_id: str) -> ErrorCode:
    """Returns the error for an unknown transactional id."""
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if transactional_id else ErrorCode.INVALID_REQUEST


def error_for_version(code: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """Returns the error code for a request version: older clients do not know PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
