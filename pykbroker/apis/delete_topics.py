"""DeleteTopics: topics go, by name or by id; their records can be read by nobody from then on."""

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
    asked = await asked_for(request, call.version)
    if not call.node.settings.delete_topic_enable:
        return DeleteTopicsResponse(
            responses=await each(lambda it: disabled(it, call.version), asked)
        )
    by_topic: dict[object, list[DeleteTopicState]] = {}
    await each(lambda it: by_topic.setdefault(topic_meant(it, call), []).append(it), asked)
    meant = list(by_topic.values())
    refusals = await each(refusal_of_form, meant)
    sound = [same[0] for same, refusal in zip(meant, refusals, strict=True) if refusal is None]
    outcomes = iter(
        await call.node.controller.delete_topics(
            [it.topic_id if it.name is None else it.name for it in sound]
        )
    )
    return DeleteTopicsResponse(
        responses=await each(
            lambda it: result(said_once(it[0]), it[1] or next(outcomes)),
            list(zip(meant, refusals, strict=True)),
        )
    )


async def asked_for(request: DeleteTopicsRequest, version: int) -> Sequence[DeleteTopicState]:
    if version >= STATES_SINCE_VERSION:
        return request.topics
    return await each(lambda name: DeleteTopicState(name=name), request.topic_names)


def topic_meant(asked: DeleteTopicState, call: Call) -> object:
    """The same for a topic's name and for its id; what names nothing stands for itself."""
    image = call.node.image
    if asked.name is not None and asked.topic_id != ZERO_UUID:
        return id(asked)
    if asked.name is not None:
        topic = image.topics.get(asked.name)
        return asked.name if topic is None else topic.id
    return id(asked) if asked.topic_id == ZERO_UUID else asked.topic_id


def refusal_of_form(same: Sequence[DeleteTopicState]) -> Refusal | None:
    """A topic is named by name or by id, not both, and once."""
    asked = same[0]
    has_id = asked.topic_id != ZERO_UUID
    if asked.name is not None and has_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "A topic is named by name or by id, not by both.")
    if asked.name is None and not has_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "A topic is named by name or by id.")
    if len(same) > 1:
        what = "topic name" if asked.name is not None else "topic id"
        return Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate {what}.")
    return None


def said_once(same: Sequence[DeleteTopicState]) -> DeleteTopicState:
    names = [it.name for it in same if it.name is not None]
    ids = [it.topic_id for it in same if it.topic_id != ZERO_UUID]
    return DeleteTopicState(name=names[0] if names else None, topic_id=ids[0] if ids else ZERO_UUID)


def disabled(asked: DeleteTopicState, version: int) -> DeletableTopicResult:
    code = (
        ErrorCode.TOPIC_DELETION_DISABLED
        if version >= DISABLED_ERROR_SINCE_VERSION
        else ErrorCode.INVALID_REQUEST
    )
    return result(asked, Refusal(code))


def result(asked: DeleteTopicState, outcome: TopicImage | Refusal | None) -> DeletableTopicResult:
    assert outcome is not None
    if isinstance(outcome, Refusal):
        return DeletableTopicResult(
            name=asked.name,
            topic_id=asked.topic_id,
            error_code=outcome.code,
            error_message=outcome.message or outcome.code.sentence,
        )
    return DeletableTopicResult(name=outcome.name, topic_id=outcome.id, error_code=ErrorCode.NONE)
