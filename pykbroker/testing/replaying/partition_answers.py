"""Replays requests per partition: clients can divide partitions among requests in other ways.

Which partitions share a request depends on the metadata of the client at that moment.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.error_responses import merged
from pykbroker.testing.replaying.request_matching import comparable
from pykbroker.testing.request_splitting import PartitionFilter
from pykbroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.testing.replaying.recorded_exchanges import Recorded
    from pykbroker_protocol.frame import RequestHeader
    from pykbroker_protocol.message import Message

    TopicPartition = tuple[str, int | None]
    Which = tuple[int, int, str]

DIVISIBLE: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)


class PartitionAnswers:
    """Recorded requests and responses, split by partition."""

    def __init__(self) -> None:
        self._answers: dict[Which, list[Message]] = {}

    def add(self, recorded: Recorded) -> None:
        header = recorded.exchange.header
        if header.api_key not in DIVISIBLE or recorded.answer is None:
            return
        for topic_partition, part in parts_of(recorded.request):
            answer = part_at(recorded.answer, topic_partition)
            if answer is not None:
                self._answers.setdefault(request_key(header, part), []).append(answer)

    def answer(self, header: RequestHeader, request: Message) -> Message | None:
        """Returns None if a partition has no matching recorded request."""
        if header.api_key not in DIVISIBLE:
            return None
        found = [self._next(request_key(header, part)) for _, part in parts_of(request)]
        known = [it for it in found if it is not None]
        if not known or len(known) < len(found):
            return None
        return reduce(lambda whole, part: merged(part, whole), known)

    def _next(self, requested: Which) -> Message | None:
        """Returns responses in recorded order and repeats the last one."""
        answers = self._answers.get(requested, [])
        if not answers:
            return None
        return answers.pop(0) if len(answers) > 1 else answers[0]


def request_key(header: RequestHeader, part: Message) -> Which:
    return header.api_key, header.api_version, repr(comparable(part, header.api_version))


def parts_of(message: Message) -> Iterator[tuple[TopicPartition, Message]]:
    for topic_partition in topic_partitions_in(message):
        part = part_at(message, topic_partition)
        if part is not None:
            yield topic_partition, part


def topic_partitions_in(message: Message) -> list[TopicPartition]:
    found: list[TopicPartition] = []

    def note(topic: str, partition: int | None) -> bool:
        found.append((topic, partition))
        return False

    PartitionFilter(note, {}).split(message)
    return found


def part_at(message: Message, topic_partition: TopicPartition) -> Any:
    return PartitionFilter(lambda *found: found == topic_partition, {}).split(message)[0]
