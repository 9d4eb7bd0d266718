"""Records of `__consumer_offsets` for a generation of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.message import (
    Message,
    array,
    int32,
    int64,
    octets,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class GroupMetadataKey(Message, record_type=2, versions="0"):
    group: str = string("0")


class MemberMetadata(Message):
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32("0+")
    subscription: bytes = octets("0+")
    assignment: bytes = octets("0+")


class GroupMetadataValue(Message, record_type=2, versions="0-4", flexible="4+"):
    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: Sequence[MemberMetadata] = array(MemberMetadata, "0+")
