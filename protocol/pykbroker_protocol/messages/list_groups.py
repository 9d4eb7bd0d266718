"""ListGroups: lists the groups of this coordinator.

Served versions: 0-5
     0  first version
     1  adds throttle_time_ms (KIP-124)
     2  responses precede throttling (KIP-219)
     3  flexible
     4  states_filter and group_state (KIP-518)
     5  types_filter and group_type (KIP-848)
Limits: No share groups and streams groups.
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


class ListGroupsRequest(Message, api=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    states_filter: Sequence[str] = array(STRING, "4+", default=())
    types_filter: Sequence[str] = array(STRING, "5+", default=())


class ListedGroup(Message):
    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+", default="", ignorable=True)
    group_type: str = string("5+", default="", ignorable=True)


class ListGroupsResponse(Message, api=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0+")
    groups: Sequence[ListedGroup] = array(ListedGroup, "0+")
