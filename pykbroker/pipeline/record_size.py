"""How large a record a topic takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT: Final = "max.message.bytes"
BY_DEFAULT: Final = 1_048_588
"""Kafka's own."""
ANSWER_TIMEOUT_S: Final = 10.0


def record_bytes_max(client: Mapping[str, str], topic: str) -> int:
    """What the broker says; its default, where it says nothing or may not be asked."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient(dict(client))  # it must live until the answer is there
    try:
        asked = admin.describe_configs([resource], request_timeout=ANSWER_TIMEOUT_S)
        return int(asked[resource].result()[LIMIT].value or BY_DEFAULT)
    except KafkaException:
        return BY_DEFAULT
