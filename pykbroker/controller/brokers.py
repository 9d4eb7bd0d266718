"""Decides registration, unfencing and unregistration of brokers, and leaders after a restart."""

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
    """The broker epoch is the offset of the registration, so it grows with each registration."""
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
    """Removes the registration of a fenced broker; a live one still serves partitions."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        refusal = Refusal(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
        )
        return Decision((), refusal)
    if not broker.fenced:
        return Decision(
            (),
            Refusal(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is not fenced; stop it first."),
        )
    record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Decision((record,), None)


def lead_again(
    image: ClusterImage, broker_id: int, *, was_clean: bool
) -> Iterator[PartitionChangeRecord]:
    """Begins new leader epochs of partitions whose logs may have lost their end.

    After a clean shutdown the logs are complete and the epochs stay. The broker also becomes
    leader of partitions without a leader, if it is in sync or was the last in-sync replica: a
    controller of Apache Kafka removes even the last replica from the in-sync set when it stops
    (KIP-966).
    """
    for topic in image.topics.values():
        for partition in topic.partitions:
            if _needs_new_epoch(partition, broker_id, was_clean=was_clean):
                yield _new_epoch(topic.id, partition, broker_id)


def _needs_new_epoch(partition: PartitionImage, broker_id: int, *, was_clean: bool) -> bool:
    if partition.leader != NO_LEADER:
        return partition.leader == broker_id and not was_clean
    candidates = (*partition.in_sync, *partition.eligible) or partition.last_known
    return broker_id in candidates


def _new_epoch(topic_id: bytes, partition: PartitionImage, broker_id: int) -> PartitionChangeRecord:
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
