"""Replays records into images."""

from pykbroker.metadata.image import ClusterImage, ImageDelta
from pykbroker.metadata.replay import replay
from pykbroker.slices import at_once
from pykbroker_protocol.message import Message


def delta_of(image: ClusterImage, *records: Message) -> ImageDelta:
    return at_once(replay(image, records, last_offset=image.offset + len(records)))


def apply(image: ClusterImage, *records: Message) -> ImageDelta:
    """Applies records and returns their delta."""
    delta = delta_of(image, *records)
    image.apply(delta)
    return delta
