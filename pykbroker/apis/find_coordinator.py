"""FindCoordinator: returns the leader of the partition of a group or transactional id.

The first request creates the internal topic. Clients get COORDINATOR_NOT_AVAILABLE until it has a
leader.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.coordinator_topics import new_coordinator_topic
from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE, partition_of_name
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.node import Call, Node
    from pykbroker.controller_access import NewTopic
    from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest

logger = logging.getLogger(__name__)

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}
SHARE_KEY = re.compile(r".+:[\w-]{22}:\d+", re.DOTALL)
BATCHED_SINCE_VERSION = 4
NO_NODE = -1


class Located(NamedTuple):
    node_id: int
    host: str
    port: int


NOT_LOCATED = Located(NO_NODE, "", -1)


def handle(
    request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    topic = TOPICS.get(request.key_type)
    if topic is None or topic in call.node.image.topics:
        return answer(request, call)
    new_topic = new_coordinator_topic(topic, call.node)
    if call.node.forward is not None:
        call.node.forward.begin_topic_creation([new_topic], None)
        return answer(request, call)
    return create_and_answer(new_topic, request, call)


async def create_and_answer(
    new_topic: NewTopic, request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse:
    (outcome,) = await call.node.controller.create_topics([new_topic])
    log_refusal(new_topic.name, outcome if isinstance(outcome, Refusal) else None, call.node)
    return answer(request, call)


def log_refusal(topic: str, refusal: Refusal | None, node: Node) -> None:
    """Logs each reason once, because clients retry every few milliseconds."""
    if refusal is None or refusal.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        node.refused_topics.pop(topic, None)
        return
    reason = refusal.message or refusal.code.name
    if node.refused_topics.get(topic) != reason:
        node.refused_topics[topic] = reason
        logger.warning(
            "%s: topic cannot be created (%s); clients get COORDINATOR_NOT_AVAILABLE and retry",
            topic,
            reason,
        )


def answer(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    if call.version >= BATCHED_SINCE_VERSION:
        rows = [row(key, locate(key, request.key_type, call)) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=rows)
    found = locate(request.key, request.key_type, call)
    if isinstance(found, Refusal):
        return FindCoordinatorResponse(
            error_code=found.code,
            error_message=found.message or found.code.sentence,
            node_id=NO_NODE,
            port=NOT_LOCATED.port,
        )
    return FindCoordinatorResponse(node_id=found.node_id, host=found.host, port=found.port)


def row(key: str, found: Located | Refusal) -> Coordinator:
    if isinstance(found, Refusal):
        return Coordinator(
            key=key,
            node_id=NO_NODE,
            port=NOT_LOCATED.port,
            error_code=found.code,
            error_message=found.message or "",
        )
    return Coordinator(key=key, node_id=found.node_id, host=found.host, port=found.port)


def locate(key: str, key_type: int, call: Call) -> Located | Refusal:
    if key_type not in (GROUP, TRANSACTION, SHARE):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown key type {key_type}.")
    if key_type == SHARE and not SHARE_KEY.fullmatch(key):
        return Refusal(ErrorCode.INVALID_REQUEST, "The key must be groupId:topicId:partition.")
    topic = call.node.image.topics.get(TOPICS.get(key_type, ""))
    if topic is None:
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    leader = topic.partitions[partition_of_name(key, len(topic.partitions))].leader
    broker = call.node.image.brokers.get(leader)
    if broker is None or broker.fenced or call.peer.listener not in broker.listeners:
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    return Located(leader, *broker.listeners[call.peer.listener])
