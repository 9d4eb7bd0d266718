"""DeleteGroups: deletes empty groups and their committed offsets.

Served versions: 0-2
     0  first version (KIP-229)
     1  responses precede throttling (KIP-219)
     2  flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    STRING,
    Message,
    array,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class DeleteGroupsRequest(Message, api=ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+"):
    groups_names: Sequence[str] = array(STRING, "0+")


class DeletableGroupResult(Message):
    group_id: str = string("0+")
    error_code: int = int16("0+")


class DeleteGroupsResponse(Message, api=ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    results: Sequence[DeletableGroupResult] = array(DeletableGroupResult, "0+")
