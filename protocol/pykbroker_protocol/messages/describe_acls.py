"""DescribeAcls: returns the ACLs that match a filter.

Served versions: 1-3
     1  pattern types (KIP-290)
     2  flexible
     3  resource type USER (KIP-373)
Limits: The broker has no authorizer: requests get SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    Message,
    array,
    int8,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribeAclsRequest(Message, api=ApiKey.DESCRIBE_ACLS, versions="1-3", flexible="2+"):
    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class AclDescription(Message):
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResource(Message):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=3)
    acls: Sequence[AclDescription] = array(AclDescription, "0+")


class DescribeAclsResponse(Message, api=ApiKey.DESCRIBE_ACLS, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    resources: Sequence[DescribeAclsResource] = array(DescribeAclsResource, "0+")
