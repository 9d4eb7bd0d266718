"""Splits a message into the topics and partitions that a fault affects, and the rest."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pykbroker_protocol.message import Message

    Affects: TypeAlias = Callable[[str, int | None], bool]
    """True for an affected topic, or for one of its partitions."""
    Topics: TypeAlias = Mapping[bytes, Any]

NAMES = ("name", "topic")
NUMBERS = ("index", "partition_index", "partition")
NUMBER_ROWS = ("partitions", "partition_indexes")
NO_TOPIC = ""


class Layout(NamedTuple):
    """The fields of a message type that hold topics and partitions."""

    names: tuple[str, ...]
    has_topic_id: bool
    number: str | None
    structs: tuple[str, ...]
    """Arrays of further messages."""
    numbers: tuple[str, ...]
    """Arrays of partition numbers."""


@cache
def layout_of(message: type[Message]) -> Layout:
    fields = {field.name: field for field in message.fields}
    arrays = [field for field in message.fields if field.is_array]
    return Layout(
        names=tuple(name for name in NAMES if name in fields),
        has_topic_id="topic_id" in fields,
        number=next((name for name in NUMBERS if name in fields), None),
        structs=tuple(it.name for it in arrays if it.struct is not None),
        numbers=tuple(it.name for it in arrays if it.struct is None and it.name in NUMBER_ROWS),
    )


class PartitionFilter:
    """Splits messages by topic and partition. Topic ids are resolved with 'topics_by_id'."""

    def __init__(self, affects: Affects, topics_by_id: Topics) -> None:
        self._affects = affects
        self._topics_by_id = topics_by_id

    def split(self, message: Message, topic: str = NO_TOPIC) -> tuple[Any, Any]:
        """Returns the affected part and the rest; None for a part without rows."""
        layout = layout_of(type(message))
        topic = self._topic_of(message, layout) or topic
        if layout.number is not None:
            return self._whole(message, topic, getattr(message, layout.number))
        if topic and not self._has_partitions(message, layout):
            return self._whole(message, topic, None)
        affected: dict[str, list[Any]] = {}
        rest: dict[str, list[Any]] = {}
        for name in layout.structs:
            parts = [self.split(it, topic) for it in getattr(message, name) or ()]
            affected[name] = [one for one, _ in parts if one is not None]
            rest[name] = [other for _, other in parts if other is not None]
        for name in layout.numbers:
            numbers = getattr(message, name) or ()
            affected[name] = [it for it in numbers if self._affects(topic, it)]
            rest[name] = [it for it in numbers if not self._affects(topic, it)]
        return part_of(message, affected), part_of(message, rest)

    def _whole(self, message: Message, topic: str, number: int | None) -> tuple[Any, Any]:
        return (message, None) if self._affects(topic, number) else (None, message)

    def _topic_of(self, message: Message, layout: Layout) -> str:
        for name in layout.names:
            if value := getattr(message, name):
                return str(value)
        if layout.has_topic_id:
            found = self._topics_by_id.get(bytes(message.topic_id))  # type: ignore[attr-defined]  # it has one
            return NO_TOPIC if found is None else str(found.name)
        return NO_TOPIC

    def _has_partitions(self, message: Message, layout: Layout) -> bool:
        """False for rows with a name and no partition number, such as config entries."""
        if any(getattr(message, name) for name in layout.numbers):
            return True
        rows: Iterator[Message] = (
            row for name in layout.structs for row in getattr(message, name) or ()
        )
        return any(layout_of(type(row)).number is not None for row in rows)


def part_of(message: Message, arrays: dict[str, list[Any]]) -> Message | None:
    """The message with only these rows, or None if no row is left."""
    return message.replace(**arrays) if any(arrays.values()) else None
