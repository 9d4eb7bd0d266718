"""DeleteTopics: deletes topics by name or id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.slices import each
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis.node import Call
    from pykbroker.metadata.image import TopicImage
    from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest

STATES_SINCE_VERSION = 6
DISABLED_ERROR_SINCE_VERSION = 3


async def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    requested = await requested_topics(request, call.version)
    if not call.node.settings.delete_topic_enable:
        return DeleteTopicsResponse(
            responses=await each(lambda it: disabled(it, call.version), requested)
        )
    by_topic: dict[object, list[DeleteTopicState]] = {}
    await each(lambda it: by_topic.setdefault(topic_key(it, call), []).append(it), requested)
    grouped = list(by_topic.values())
    refusals = await each(refusal_of_rows, grouped)
    valid = [same[0] for same, refusal in zip(grouped, refusals, strict=True) if refusal is None]
    outcomes = iter(
        await call.node.controller.delete_topics(
            [it.topic_id if it.name is None else it.name for it in valid]
        )
    )
    return DeleteTopicsResponse(
        responses=await each(
            lambda it: result(merged(it[0]), it[1] or next(outcomes)),
            list(zip(grouped, refusals, strict=True)),
        )
    )


async def requested_topics(
    request: DeleteTopicsRequest, version: int
) -> Sequence[DeleteTopicState]:
    if version >= STATES_SINCE_VERSION:
        return request.topics
    return await each(lambda name: DeleteTopicState(name=name), request.topic_names)


def topic_key(requested: DeleteTopicState, call: Call) -> object:
    """Returns a key that is equal for the name and the id of a topic, unique for invalid rows."""
    image = call.node.image
    if requested.name is not None and requested.topic_id != ZERO_UUID:
        return id(requested)
    if requested.name is not None:
        topic = image.topics.get(requested.name)
        return requested.name if topic is None else topic.id
    return id(requested) if requested.topic_id == ZERO_UUID else requested.topic_id


def refusal_of_rows(same: Sequence[DeleteTopicState]) -> Refusal | None:
    """Rejects rows with both name and id or neither, and repeated topics."""
    requested = same[0]
    has_id = requested.topic_id != ZERO_UUID
    if requested.name is not None and has_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "Specify the topic name or the id, not both.")
    if requested.name is None and not has_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "Specify the topic name or the id.")
    if len(same) > 1:
        what = "topic name" if requested.name is not None else "topic id"
        return Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate {what}.")
    return None


def merged(same: Sequence[DeleteTopicState]) -> DeleteTopicState:
    names = [it.name for it in same if it.name is not None]
    ids = [it.topic_id for it in same if it.topic_id != ZERO_UUID]
    return DeleteTopicState(name=names[0] if names else None, topic_id=ids[0] if ids else ZERO_UUID)


def disabled(requested: DeleteTopicState, version: int) -> DeletableTopicResult:
    code = (
        ErrorCode.TOPIC_DELETION_DISABLED
        if version >= DISABLED_ERROR_SINCE_VERSION
        else ErrorCode.INVALID_REQUEST
    )
    return result(requested, Refusal(code))


def result(
    requested: DeleteTopicState, outcome: TopicImage | Refusal | None
) -> DeletableTopicResult:
    assert outcome is not None
    if isinstance(outcome, Refusal):
        return DeletableTopicResult(
            name=requested.name,
            topic_id=requested.topic_id,
            error_code=outcome.code,
            error_message=outcome.message or outcome.code.sentence,
        )
    return DeletableTopicResult(name=outcome.name, topic_id=outcome.id, error_code=ErrorCode.NONE)


def failed(request: DeleteTopicsRequest, refusal: Refusal, call: Call) -> DeleteTopicsResponse:
    if call.version >= STATES_SINCE_VERSION:
        requested = request.topics
    else:
        requested = [DeleteTopicState(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=it.name,
                topic_id=it.topic_id,
                error_code=refusal.code,
                error_message=None,
            )
            for it in requested
        ]
    )
