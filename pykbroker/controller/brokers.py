"""Brokers come, are let in, and lead what they held before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.decision import Decision
from pykbroker.metadata.image import NO_LEADER
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.cluster import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from pykbroker_protocol.metadata.topics import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.controller_access import BrokerRegistration
    from pykbroker.metadata.image import ClusterImage, PartitionImage

PLAINTEXT = 0
UNFENCE = -1


def register_broker(registration: BrokerRegistration, *, next_offset: int) -> Decision[int]:
    """The broker's epoch is the offset of its registration, so every later one is greater."""
    record = RegisterBrokerRecord(
        broker_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=next_offset,
        end_points=[
            BrokerEndpoint(
                name=name,
                host=host,
                port=port,
                security_protocol=registration.security_protocols.get(name, PLAINTEXT),
            )
            for name, (host, port) in registration.listeners.items()
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in registration.features.items()
        ],
        rack=registration.rack,
        fenced=True,
        log_dirs=tuple(registration.directories),
    )
    return Decision((record,), next_offset)


def unfence_broker(image: ClusterImage, broker_id: int) -> Decision[None]:
    broker = image.brokers[broker_id]
    if not broker.fenced:
        return Decision((), None)
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, fenced=UNFENCE
    )
    return Decision((record,), None)


def unregister_broker(image: ClusterImage, broker_id: int) -> Decision[Refusal | None]:
    """Only one that is gone: a live broker would go on serving what the cluster knows not of."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        refusal = Refusal(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
        )
        return Decision((), refusal)
    if not broker.fenced:
        return Decision(
            (), Refusal(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is alive; stop it first.")
        )
    record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Decision((record,), None)


def lead_again(
    image: ClusterImage, broker_id: int, *, was_clean: bool
) -> Iterator[PartitionChangeRecord]:
    """A new leader epoch for what the broker leads, if its log may have lost its end.

    After a clean stop the log is what it was and so is the epoch. A partition without a leader
    is led by the broker again if it was the one in sync, or the last of them: a controller of
    Apache Kafka takes even the last one out of the in-sync set when it stops (KIP-966).
    """
    for topic in image.topics.values():
        for partition in topic.partitions:
            if _leads_anew(partition, broker_id, was_clean=was_clean):
                yield _led_again(topic.id, partition, broker_id)


def _leads_anew(partition: PartitionImage, broker_id: int, *, was_clean: bool) -> bool:
    if partition.leader != NO_LEADER:
        return partition.leader == broker_id and not was_clean
    candidates = (*partition.in_sync, *partition.eligible) or partition.last_known
    return broker_id in candidates


def _led_again(topic_id: bytes, partition: PartitionImage, broker_id: int) -> PartitionChangeRecord:
    if broker_id in partition.in_sync:
        return PartitionChangeRecord(
            partition_id=partition.index, topic_id=topic_id, leader=broker_id
        )
    return PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        leader=broker_id,
        isr=(broker_id,),
        eligible_leader_replicas=tuple(it for it in partition.eligible if it != broker_id),
        last_known_elr=(),
    )
