"""Replays records into images."""

from pykbroker.generators import run_to_end
from pykbroker.metadata.image import ClusterImage, ImageDelta
from pykbroker.metadata.replay import replay
from pykbroker_protocol.message import Message
from pykbroker_protocol.metadata.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)

TOPIC_ID = b"t" * 16


def delta_of(image: ClusterImage, *records: Message) -> ImageDelta:
    return run_to_end(replay(image, records, last_offset=image.offset + len(records)))


def apply(image: ClusterImage, *records: Message) -> ImageDelta:
    """Applies records and returns their delta."""
    delta = delta_of(image, *records)
    image.apply(delta)
    return delta


def image_with_eligible(*, eligible: tuple[int, ...], last_known: tuple[int, ...]) -> ClusterImage:
    """A partition without a leader, as a controller of Apache Kafka leaves it when it stops."""
    image = ClusterImage(cluster_id="test")
    apply(image, TopicRecord(name="topic", topic_id=TOPIC_ID))
    apply(
        image,
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=(1, 2),
            isr=(1,),
            removing_replicas=(),
            adding_replicas=(),
        ),
    )
    apply(
        image,
        PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            leader=-1,
            isr=(),
            eligible_leader_replicas=eligible,
            last_known_elr=last_known,
        ),
    )
    return image
