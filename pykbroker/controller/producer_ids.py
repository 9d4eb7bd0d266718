"""Decides AllocateProducerIds: the next block of producer ids for a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.decision import Decision
from pykbroker_protocol.metadata.cluster import ProducerIdsRecord

if TYPE_CHECKING:
    from pykbroker.metadata.image import BrokerImage, ClusterImage

PRODUCER_IDS_PER_BLOCK = 1000


def allocate_producer_ids(image: ClusterImage, broker: BrokerImage) -> Decision[range]:
    first = image.next_producer_id
    after = first + PRODUCER_IDS_PER_BLOCK
    record = ProducerIdsRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=after
    )
    return Decision((record,), range(first, after))
