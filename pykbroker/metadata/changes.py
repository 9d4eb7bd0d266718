"""What a commit changed in the image, for those who follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.slices import SLICE_ELEMENTS
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.metadata.cluster import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from pykbroker_protocol.metadata.topics import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.metadata.image import ClusterImage, TopicImage
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Topics that were created are among those that changed, deleted ones are not."""

    topics_created: tuple[TopicImage, ...] = ()
    topics_changed: tuple[TopicImage, ...] = ()
    topics_deleted: tuple[TopicImage, ...] = ()
    configurations_changed: tuple[tuple[int, str], ...] = ()
    """Resource type and name."""
    brokers_changed: bool = False


def replay(image: ClusterImage, records: Iterable[Message]) -> Slices[Changes]:
    """Take records into the image and tell what they changed there.

    Yields between topics alone: whoever reads the image meanwhile sees whole topics.
    """
    left = SLICE_ELEMENTS
    created: dict[bytes, None] = {}
    changed: dict[bytes, None] = {}
    deleted: list[TopicImage] = []
    configured: dict[tuple[int, str], None] = {}
    brokers_changed = False
    for record in records:
        left -= 1
        if left < 0 and isinstance(record, TopicRecord | RemoveTopicRecord):
            left = SLICE_ELEMENTS
            yield
        match record:
            case TopicRecord():
                created[record.topic_id] = None
                changed[record.topic_id] = None
            case PartitionRecord() | PartitionChangeRecord():
                changed[record.topic_id] = None
            case RemoveTopicRecord():
                deleted.append(image.topics_by_id[record.topic_id])
            case ConfigRecord():
                configured[record.resource_type, record.resource_name] = None
            case (
                RegisterBrokerRecord() | UnregisterBrokerRecord() | BrokerRegistrationChangeRecord()
            ):
                brokers_changed = True
        image.apply(record)
    topics = image.topics_by_id
    return Changes(
        topics_created=tuple(topics[it] for it in created if it in topics),
        topics_changed=tuple(topics[it] for it in changed if it in topics),
        topics_deleted=tuple(deleted),
        configurations_changed=tuple(configured),
        brokers_changed=brokers_changed,
    )
