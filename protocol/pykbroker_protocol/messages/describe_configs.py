"""DescribeConfigs: returns the configuration of topics, brokers and groups, with sources.

Served versions: 1-4
     1  synonyms and config_source (KIP-226)
     2  responses precede throttling (KIP-219)
     3  config_type and documentation (KIP-569)
     4  flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    STRING,
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribeConfigsResource(Message):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configuration_keys: Sequence[str] | None = array(STRING, "0+", nullable="0+")


class DescribeConfigsRequest(Message, api=ApiKey.DESCRIBE_CONFIGS, versions="1-4", flexible="4+"):
    resources: Sequence[DescribeConfigsResource] = array(DescribeConfigsResource, "0+")
    include_synonyms: bool = boolean("1+", default=False)
    include_documentation: bool = boolean("3+", default=False)


class DescribeConfigsSynonym(Message):
    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


class DescribeConfigsResourceResult(Message):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")
    read_only: bool = boolean("0+")
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("0+")
    synonyms: Sequence[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = int8("3+", default=0, ignorable=True)
    documentation: str | None = string("3+", nullable="0+", default="", ignorable=True)


class DescribeConfigsResult(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default="")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: Sequence[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+")


class DescribeConfigsResponse(Message, api=ApiKey.DESCRIBE_CONFIGS, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32("0+", default=0)
    results: Sequence[DescribeConfigsResult] = array(DescribeConfigsResult, "0+")
