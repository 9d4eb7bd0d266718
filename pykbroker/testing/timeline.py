"""The timeline of a broker in a test: the latest events, for the report of a failed test."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.testing.response_errors import errors_in
from pykbroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pykbroker.apis import Api
    from pykbroker.apis.node import Call
    from pykbroker.broker import Broker
    from pykbroker.coordination.groups.committed import Committed
    from pykbroker_protocol.message import Message

EVENTS_MAX: Final = 1_000
TOPICS_SHOWN_MAX: Final = 50


class Event(NamedTuple):
    seconds: float
    """Seconds since the start or the reset of the broker, in real time."""
    text: str

    def __str__(self) -> str:
        return f"{self.seconds:8.3f} s  {self.text}"


class Timeline:
    """The latest EVENTS_MAX events: clients, decisions of coordinators, error responses."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._began = monotonic()
        self._left_out = 0

    def clear(self) -> None:
        self._events.clear()
        self._began = self._monotonic()
        self._left_out = 0

    def note(self, text: str) -> None:
        if len(self._events) == EVENTS_MAX:
            self._left_out += 1
        self._events.append(Event(self._monotonic() - self._began, text))

    def note_answer(self, api: Api, call: Call, answer: Message) -> None:
        if api.key is ApiKey.API_VERSIONS:
            software = call.peer.software_name or "unnamed software"
            version = call.peer.software_version or ""
            self.note(f"{client_of(call)} connected with {software} {version}".rstrip())
        for error in errors_in(answer, topic_name=call.node.partitions.topic_name):
            self.note(f"{api.title} v{call.version} of {client_of(call)}: {error}")

    def __iter__(self) -> Iterator[Event]:
        return iter(tuple(self._events))

    def __len__(self) -> int:
        return len(self._events)

    def __str__(self) -> str:
        lines = [str(event) for event in self._events]
        if self._left_out:
            lines.insert(0, f"({self._left_out} earlier events not kept)")
        return "\n".join(lines) or "(no events)"


def client_of(call: Call) -> str:
    return f"client {call.client_id!r} at {call.peer}"


def offset_summary(broker: Broker) -> Iterator[str]:
    """One line per topic with its offsets, and one per group with its committed offsets."""
    topics = broker.image.topics
    for name in sorted(topics)[:TOPICS_SHOWN_MAX]:
        held = [broker.partitions.get(name, it.index) for it in topics[name].partitions]
        spans = [
            f"{it.index}: {it.log.log_start_offset}..{it.log.log_end_offset}"
            for it in held
            if it is not None and it.log.log_end_offset
        ]
        yield f"topic {name} (partitions: {len(held)}): {', '.join(spans) or 'empty'}"
    for log in broker.groups.active():
        for group_id in sorted(log.state.groups):
            committed = log.state.offsets.of_group(group_id)
            yield f"group {group_id}: {', '.join(progress(broker, committed)) or 'no offsets'}"


def progress(broker: Broker, committed: Mapping[str, Mapping[int, Committed]]) -> Iterator[str]:
    for topic, partitions in sorted(committed.items()):
        for index, found in sorted(partitions.items()):
            held = broker.partitions.get(topic, index)
            end = "?" if held is None else held.high_watermark
            yield f"{topic}-{index} at {found.offset} of {end}"
