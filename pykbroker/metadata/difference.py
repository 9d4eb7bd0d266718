"""The delta between two images, for subscribers that must move from one to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.image import ImageDelta, TopicImage
from pykbroker.metadata.topic_names import can_collide, unified
from pykbroker_protocol.compiler import SLICE_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.metadata.image import ClusterImage
    from pykbroker.slices import Slices


def difference(before: ClusterImage, after: ClusterImage) -> Slices[ImageDelta]:
    """Returns the delta that `before` must apply to be equal to `after`."""
    topics: dict[str, TopicImage] = {}
    for count, topic in enumerate(after.topics.values()):
        if count % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
            yield
        if before.topics_by_id.get(topic.id) != topic:
            topics[topic.name] = topic
    deleted = tuple(it for it in before.topics.values() if it.id not in after.topics_by_id)
    none: Mapping[str, str] = {}
    return ImageDelta(
        base_offset=before.offset,
        last_offset=after.offset,
        topics=topics,
        topics_by_id={it.id: it for it in topics.values()},
        topics_deleted=deleted,
        unified_names={unified(it): it for it in topics if can_collide(it)},
        configurations={
            resource: after.configurations.get(resource, none)
            for resource in before.configurations.keys() | after.configurations.keys()
            if before.configurations.get(resource) != after.configurations.get(resource)
        },
        brokers={
            broker_id: after.brokers.get(broker_id)
            for broker_id in before.brokers.keys() | after.brokers.keys()
            if before.brokers.get(broker_id) != after.brokers.get(broker_id)
        },
        features={
            name: after.features.get(name, 0)
            for name in before.features.keys() | after.features.keys()
            if before.features.get(name) != after.features.get(name)
        },
        next_producer_id=(
            None if before.next_producer_id == after.next_producer_id else after.next_producer_id
        ),
    )
