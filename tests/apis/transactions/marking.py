"""Markers written by WriteTxnMarkers of another coordinator or an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.apis.request_builders import fetched, from_partition
from tests.apis.transactions.transcript import conversation

if TYPE_CHECKING:
    from tests.apis.transactions.transcript import Producer, TransactionTranscript
    from tests.apis.transcript import Topic


def marker(producer: Producer, *topics: WritableTxnMarkerTopic, **more: Any) -> WritableTxnMarker:
    return WritableTxnMarker(
        **{
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "transaction_result": False,
            "topics": topics,
            "coordinator_epoch": 0,
            **more,
        }
    )


def at(topic: Topic | str, *partitions: int) -> WritableTxnMarkerTopic:
    name = topic if isinstance(topic, str) else topic.name
    return WritableTxnMarkerTopic(name=name, partition_indexes=partitions or (0,))


def written(*markers: WritableTxnMarker) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=markers)


@conversation
def markers_are_written(broker: TransactionTranscript) -> None:
    topic = broker.topic(partitions=2)
    for version in (1, 2):
        producer = broker.producer(f"id{version}")
        producer.add(topic)
        producer.send(topic)
        broker.ask(written(marker(producer, at(topic, 0, 1))), version, note="aborts")
        broker.ask(written(marker(producer, at(topic))), version, note="again")
        broker.ask(written(marker(producer, at(topic, 7), at("nowhere"))), version, note="nowhere")
        broker.ask(written(), version, note="none")
        broker.ask(fetched(from_partition(0, topic=topic.name), isolation_level=1), 11)


@conversation
def markers_of_unknown_producers(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    producer = broker.producer("id")
    with broker.known_difference("Marker without a producer"):
        for version in (1, 2):
            broker.ask(written(marker(producer, at(topic), producer_id=-1)), version)
    broker.ask(fetched(from_partition(0, topic=topic.name)), 11)


@conversation
def late_markers(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    for version, strictness in ((1, 0), (2, 0), (2, 1), (2, 2)):
        producer = broker.producer(f"id{version}{strictness}")
        producer.take_over()
        producer.add(topic)
        producer.send(topic)
        note = f"transaction version {strictness}"
        for epoch, coordinator_epoch in ((0, 0), (1, -1), (1, 0), (2, 3), (2, 2), (2, 3), (1, 4)):
            one = marker(
                producer,
                at(topic),
                producer_epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                transaction_version=strictness,
            )
            broker.ask(written(one), version, note=f"{note} {epoch} {coordinator_epoch}")
