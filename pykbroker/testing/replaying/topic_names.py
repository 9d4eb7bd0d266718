"""Names and ids of the topics of the recorded cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.metadata import MetadataResponse

if TYPE_CHECKING:
    from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataResponseTopic


class TopicNames:
    """Resolves topic ids, which newer versions send instead of names."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._rows: dict[str, MetadataResponseTopic] = {}
        self._latest: MetadataResponse | None = None

    def add(self, answer: Any) -> None:
        """Stores names and ids from a response that has both."""
        for topic in getattr(answer, "topics", None) or ():
            name, topic_id = getattr(topic, "name", None), getattr(topic, "topic_id", ZERO_UUID)
            if name and bytes(topic_id) != ZERO_UUID:
                self._names[bytes(topic_id)] = name
        if isinstance(answer, MetadataResponse):
            self._latest = answer
            self._rows |= {it.name: it for it in answer.topics if it.name and not it.error_code}

    def of(self, name: str | None, topic_id: bytes) -> str:
        return name or self._names.get(bytes(topic_id)) or bytes(topic_id).hex()

    def metadata(self, request: MetadataRequest) -> MetadataResponse | None:
        """Composes a response from recorded ones; None if a topic is unknown."""
        if self._latest is None:
            return None
        requested = request.topics
        if requested is None:
            return self._latest.replace(topics=tuple(self._rows.values()))
        rows = [self._rows.get(self.of(it.name, it.topic_id)) for it in requested]
        if None in rows:
            return None
        return self._latest.replace(topics=rows)
