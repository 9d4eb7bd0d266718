"""Decisions and replays of the controller without slices."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pykbroker.controller import configurations, new_partitions, topics
from pykbroker.generators import run_to_end
from tests.metadata.replaying import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykbroker.metadata.image import ClusterImage, ImageDelta
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message

Given = ParamSpec("Given")
T = TypeVar("T")


def whole(work: Callable[Given, Slices[T]]) -> Callable[Given, T]:
    @wraps(work)
    def done(*given: Given.args, **named: Given.kwargs) -> T:
        return run_to_end(work(*given, **named))

    return done


def replay(image: ClusterImage, records: Iterable[Message]) -> ImageDelta:
    return apply(image, *records)


create_topics = whole(topics.create_topics)
delete_topics = whole(topics.delete_topics)
create_partitions = whole(new_partitions.create_partitions)
alter_configurations = whole(configurations.alter_configurations)
replace_configurations = whole(configurations.replace_configurations)
