"""DeleteTopics: topics go, by name or by id; their records can be read by nobody from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from pykbroker.controller.image import TopicImage
    from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest

STATES_SINCE_VERSION = 6
DISABLED_ERROR_SINCE_VERSION = 3


async def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    asked = asked_for(request, call.version)
    if not call.node.settings.delete_topic_enable:
        return DeleteTopicsResponse(responses=[disabled(it, call.version) for it in asked])
    answered = {(it.name, it.topic_id): it for it in asked}.values()
    sound = [it for it in answered if refusal_of_form(it, asked) is None]
    outcomes = await call.node.controller.delete_topics(
        [it.topic_id if it.name is None else it.name for it in sound]
    )
    decided = {id(it): outcome for it, outcome in zip(sound, outcomes, strict=True)}
    return DeleteTopicsResponse(
        responses=[result(it, decided.get(id(it)) or refusal_of_form(it, asked)) for it in answered]
    )


def asked_for(request: DeleteTopicsRequest, version: int) -> Sequence[DeleteTopicState]:
    if version >= STATES_SINCE_VERSION:
        return request.topics
    return [DeleteTopicState(name=name) for name in request.topic_names]


def refusal_of_form(
    asked: DeleteTopicState, all_asked: Sequence[DeleteTopicState]
) -> Refusal | None:
    """A topic is named by name or by id, not both, and once."""
    has_id = asked.topic_id != ZERO_UUID
    if asked.name is not None and has_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "A topic is named by name or by id, not by both.")
    if asked.name is None and not has_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "A topic is named by name or by id.")
    if sum(it.name == asked.name and it.topic_id == asked.topic_id for it in all_asked) > 1:
        what = "topic name" if asked.name is not None else "topic id"
        return Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate {what}.")
    return None


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
