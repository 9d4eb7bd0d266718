"""FindCoordinator: returns the coordinator of groups and transactional ids.

Served versions: 0-6
     0  first version
     1  key_type (KIP-98), error messages and throttle_time_ms
     2  responses precede throttling (KIP-219)
     3  flexible
     4  several keys per request (KIP-699)
     5  can return TRANSACTION_ABORTABLE (KIP-890)
     6  share groups (KIP-932)
Limits: No share groups: key type 2 gets COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    STRING,
    Message,
    array,
    int8,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class FindCoordinatorRequest(Message, api=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    key: str = string("0-3", default="")
    key_type: int = int8("1+", default=0)
    coordinator_keys: Sequence[str] = array(STRING, "4+", default=())


class Coordinator(Message):
    key: str = string("4+", default="")
    node_id: int = int32("4+", default=0)
    host: str = string("4+", default="")
    port: int = int32("4+", default=0)
    error_code: int = int16("4+", default=0)
    error_message: str | None = string("4+", nullable="4+", default="", ignorable=True)


class FindCoordinatorResponse(Message, api=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0-3", default=0)
    error_message: str | None = string("1-3", nullable="1-3", default="", ignorable=True)
    node_id: int = int32("0-3", default=0)
    host: str = string("0-3", default="")
    port: int = int32("0-3", default=0)
    coordinators: Sequence[Coordinator] = array(Coordinator, "4+", default=())
