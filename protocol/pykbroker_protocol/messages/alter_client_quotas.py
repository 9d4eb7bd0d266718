"""AlterClientQuotas: changes client quotas of users, client ids and IP addresses.

Not served. Declared versions: 0-1
     0  first version (KIP-546)
     1  flexible
Reason: The broker enforces no quotas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    boolean,
    float64,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class EntityData(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class OpData(Message):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class EntryData(Message):
    entity: Sequence[EntityData] = array(EntityData, "0+")
    ops: Sequence[OpData] = array(OpData, "0+")


class AlterClientQuotasRequest(
    Message, api=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    entries: Sequence[EntryData] = array(EntryData, "0+")
    validate_only: bool = boolean("0+")


class AlterClientQuotasEntryData(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    entity: Sequence[EntityData] = array(EntityData, "0+")


class AlterClientQuotasResponse(
    Message, api=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    throttle_time_ms: int = int32("0+", default=0)
    entries: Sequence[AlterClientQuotasEntryData] = array(AlterClientQuotasEntryData, "0+")
