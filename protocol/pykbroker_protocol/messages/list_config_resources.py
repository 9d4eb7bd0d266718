"""ListConfigResources: lists the resources that have dynamic configuration.

Served versions: 0-1
     0  first version, flexible; lists client metrics resources (KIP-714)
     1  resource types (KIP-1142)
Limits: No client metrics subscriptions (KIP-714): none are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT8,
    Message,
    array,
    int8,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ListConfigResourcesRequest(
    Message, api=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"
):
    resource_types: Sequence[int] = array(INT8, "1+", default=())


class ConfigResource(Message):
    resource_name: str = string("0+")
    resource_type: int = int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(
    Message, api=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    config_resources: Sequence[ConfigResource] = array(ConfigResource, "0+")
