"""DeleteTopics: deletes topics by name or id.

Served versions: 1-6
     1  adds throttle_time_ms (KIP-124)
     2  responses precede throttling (KIP-219)
     3  can return TOPIC_DELETION_DISABLED (KIP-322)
     4  flexible
     5  error messages; can return THROTTLING_QUOTA_EXCEEDED (KIP-599)
     6  topics by id (KIP-516)
Limits: timeout_ms is ignored; the request completes without waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    STRING,
    ZERO_UUID,
    Message,
    array,
    int16,
    int32,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class DeleteTopicState(Message):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+", default=ZERO_UUID)


class DeleteTopicsRequest(Message, api=ApiKey.DELETE_TOPICS, versions="1-6", flexible="4+"):
    topics: Sequence[DeleteTopicState] = array(DeleteTopicState, "6+", default=())
    topic_names: Sequence[str] = array(STRING, "0-5", default=(), ignorable=True)
    timeout_ms: int = int32("0+")


class DeletableTopicResult(Message):
    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message, api=ApiKey.DELETE_TOPICS, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    responses: Sequence[DeletableTopicResult] = array(DeletableTopicResult, "0+")
