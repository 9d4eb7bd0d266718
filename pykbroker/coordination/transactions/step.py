"""What one request comes to: its answer, and what becomes of the transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.coordination.transactions.transaction import Transaction
    from pykbroker_protocol.message import Message


class Step(NamedTuple):
    response: Message
    becomes: tuple[Transaction, ...] = ()
    """The states it goes through, to be written as one batch."""
    reason: str | None = None


def refusal_of_unknown(transactional_id: str) -> ErrorCode:
    """Why a producer cannot act under a transactional id that is not there."""
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if transactional_id else ErrorCode.INVALID_REQUEST


def told_as(code: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """Older clients know an older word for being fenced."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
