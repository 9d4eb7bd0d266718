"""DescribeClientQuotas: returns client quotas of users, client ids and IP addresses.

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
    int8,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ComponentData(Message):
    entity_type: str = string("0+")
    match_type: int = int8("0+")
    match: str | None = string("0+", nullable="0+")


class DescribeClientQuotasRequest(
    Message, api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    components: Sequence[ComponentData] = array(ComponentData, "0+")
    strict: bool = boolean("0+")


class EntityData(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class ValueData(Message):
    key: str = string("0+")
    value: float = float64("0+")


class EntryData(Message):
    entity: Sequence[EntityData] = array(EntityData, "0+")
    values: Sequence[ValueData] = array(ValueData, "0+")


class DescribeClientQuotasResponse(
    Message, api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    entries: Sequence[EntryData] | None = array(EntryData, "0+", nullable="0+")
