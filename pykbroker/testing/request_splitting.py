"""Parts a request into what a fault affects and the rest, by topic and partition."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pykbroker_protocol.message import Message

    Affects: TypeAlias = Callable[[str, int | None], bool]
    """Whether a topic, or one of its partitions, is meant."""
    Topics: TypeAlias = Mapping[bytes, Any]

NAMES = ("name", "topic")
NUMBERS = ("index", "partition_index", "partition")
NUMBER_ROWS = ("partitions", "partition_indexes")
NO_TOPIC = ""


class Shape(NamedTuple):
    """Where a kind of message tells topics and partitions."""

    names: tuple[str, ...]
    has_topic_id: bool
    number: str | None
    structs: tuple[str, ...]
    """Fields that hold many further messages."""
    numbers: tuple[str, ...]
    """Fields that hold many partition numbers."""


@cache
def shape_of(message: type[Message]) -> Shape:
    fields = {field.name: field for field in message.fields}
    arrays = [field for field in message.fields if field.is_array]
    return Shape(
        names=tuple(name for name in NAMES if name in fields),
        has_topic_id="topic_id" in fields,
        number=next((name for name in NUMBERS if name in fields), None),
        structs=tuple(it.name for it in arrays if it.struct is not None),
        numbers=tuple(it.name for it in arrays if it.struct is None and it.name in NUMBER_ROWS),
    )


class PartitionFilter:
    """One fault's view of requests, with the names of topics that are called by their ids."""

    def __init__(self, affects: Affects, topics_by_id: Topics) -> None:
        self._affects = affects
        self._topics_by_id = topics_by_id

    def split(self, message: Message, topic: str = NO_TOPIC) -> tuple[Any, Any]:
        """The part that is concerned, and the rest; None where there is nothing left of it."""
        shape = shape_of(type(message))
        topic = self._topic_of(message, shape) or topic
        if shape.number is not None:
            return self._whole(message, topic, getattr(message, shape.number))
        if topic and not self._has_partitions(message, shape):
            return self._whole(message, topic, None)
        concerned: dict[str, list[Any]] = {}
        rest: dict[str, list[Any]] = {}
        for name in shape.structs:
            parts = [self.split(it, topic) for it in getattr(message, name) or ()]
            concerned[name] = [one for one, _ in parts if one is not None]
            rest[name] = [other for _, other in parts if other is not None]
        for name in shape.numbers:
            numbers = getattr(message, name) or ()
            concerned[name] = [it for it in numbers if self._affects(topic, it)]
            rest[name] = [it for it in numbers if not self._affects(topic, it)]
        return part_of(message, concerned), part_of(message, rest)

    def _whole(self, message: Message, topic: str, number: int | None) -> tuple[Any, Any]:
        return (message, None) if self._affects(topic, number) else (None, message)

    def _topic_of(self, message: Message, shape: Shape) -> str:
        for name in shape.names:
            if value := getattr(message, name):
                return str(value)
        if shape.has_topic_id:
            found = self._topics_by_id.get(bytes(message.topic_id))  # type: ignore[attr-defined]  # it has one
            return NO_TOPIC if found is None else str(found.name)
        return NO_TOPIC

    def _has_partitions(self, message: Message, shape: Shape) -> bool:
        """Settings and the like have names, too, but no numbers."""
        if any(getattr(message, name) for name in shape.numbers):
            return True
        rows: Iterator[Message] = (
            row for name in shape.structs for row in getattr(message, name) or ()
        )
        return any(shape_of(type(row)).number is not None for row in rows)


def part_of(message: Message, arrays: dict[str, list[Any]]) -> Message | None:
    """The message with these rows alone; None if no row is left."""
    return message.replace(**arrays) if any(arrays.values()) else None
