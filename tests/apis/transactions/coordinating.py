"""Transactional ids: initialization, partitions and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
)
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.apis.transactions.transcript import (
    OF_TRANSACTIONS,
    Producer,
    conversation,
    described,
    together,
)

if TYPE_CHECKING:
    from tests.apis.transactions.transcript import TransactionTranscript

NOBODY = 4_000_000_000
INT16_MAX = 2**15 - 1


@conversation
def the_coordinator_of_a_transactional_id(broker: TransactionTranscript) -> None:
    name = broker.transactional_id()
    for version in range(1, 7):
        for key in (name, "", "other"):
            one = FindCoordinatorRequest(key=key, key_type=OF_TRANSACTIONS)
            many = FindCoordinatorRequest(coordinator_keys=(key, name), key_type=OF_TRANSACTIONS)
            broker.ask(many if version >= 4 else one, version, note=key and "named")


@conversation
def a_transactional_id_is_initialized_again(broker: TransactionTranscript) -> None:
    producer = Producer(broker, broker.transactional_id())
    for version in range(6):
        broker.ask(producer.claim(), version)
        broker.ask(described(producer.transactional_id), 0)


@conversation
def rejected_initializations(broker: TransactionTranscript) -> None:
    producer = Producer(broker, broker.transactional_id())
    for timeout_ms in (0, -1, 900_001, 2**31 - 1, 1, 900_000):
        broker.ask(producer.claim(transaction_timeout_ms=timeout_ms), 4, note=f"{timeout_ms} ms")
    for producer_id, epoch in ((5, -1), (-1, 5)):
        claim = producer.claim(producer_id=producer_id, producer_epoch=epoch)
        broker.ask(claim, 4, note=f"{producer_id} {epoch}")
    broker.ask(producer.claim(transactional_id=""), 4, note="an empty name")
    broker.ask(producer.claim(transactional_id="", transaction_timeout_ms=0), 4, note="and no time")


@conversation
def a_producer_initializes_with_its_epoch(broker: TransactionTranscript) -> None:
    for version in (3, 4, 5):
        producer = broker.producer(f"id{version}")
        first = producer.claim(producer_id=producer.id, producer_epoch=producer.epoch)
        broker.ask(first, version, note="comes back")
        broker.ask(first, version, note="repeats")
        broker.ask(producer.claim(), version, note="another takes over")
        broker.ask(first, version, note="is fenced")
        for claimed in ((NOBODY, 0), (producer.id, 7), (producer.id, INT16_MAX)):
            ahead = producer.claim(producer_id=claimed[0], producer_epoch=claimed[1])
            broker.ask(ahead, version, note=f"epoch {claimed[1]}")
    unknown = Producer(broker, broker.transactional_id("unknown"))
    broker.ask(unknown.claim(producer_id=NOBODY, producer_epoch=3), 4, note="forgotten here")


@conversation
def initialization_aborts_an_open_transaction(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    for version in (1, 3, 4, 5):
        producer = broker.producer(f"id{version}")
        producer.add(topic)
        broker.ask(producer.claim(), version, note="while it is under way")
        producer.until_complete()
        broker.ask(described(producer.transactional_id), 0)
        broker.ask(producer.claim(), version, note="when it is over")
        broker.ask(producer.ending(), min(version, 4), note="the old one")
        broker.ask(producer.addition(topic), min(version, 3), note="the old one")


@conversation
def partitions_are_added_to_a_transaction(broker: TransactionTranscript) -> None:
    topic = broker.topic(partitions=3)
    for version in range(4):
        producer = broker.producer(f"id{version}")
        for partitions in ((0,), (0,), (1, 2), (), (0, 0)):
            broker.ask(producer.addition(topic, partitions), version, note=f"{partitions}")
            broker.ask(described(producer.transactional_id), 0)
        broker.ask(producer.addition(topic, v3_and_below_topics=()), version, note="no topic")


@conversation
def partitions_that_cannot_be_added_to_a_transaction(broker: TransactionTranscript) -> None:
    topic = broker.topic(partitions=2)
    producer = broker.producer()
    mixed = [
        AddPartitionsToTxnTopic(name=topic.name, partitions=(0, 2, 1)),
        AddPartitionsToTxnTopic(name="nowhere", partitions=(0,)),
    ]
    for version in range(4):
        broker.ask(producer.addition(topic, (5, -1)), version, note="no such partition")
        broker.ask(producer.addition("nowhere"), version, note="no such topic")
        broker.ask(producer.addition("not a name!"), version, note="no name")
        both = producer.addition(topic, v3_and_below_topics=mixed)
        broker.ask(both, version, note="some of them")
    broker.ask(described(producer.transactional_id), 0)


@conversation
def other_producers_add_partitions(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    producer = broker.producer()
    producer.take_over()
    for version in range(4):
        for name, stranger in (
            ("another id", {"v3_and_below_producer_id": NOBODY}),
            ("no id", {"v3_and_below_producer_id": -1}),
            ("an old epoch", {"v3_and_below_producer_epoch": 0}),
            ("a new epoch", {"v3_and_below_producer_epoch": 9}),
            ("the last epoch", {"v3_and_below_producer_epoch": INT16_MAX}),
            ("an unknown name", {"v3_and_below_transactional_id": "unknown"}),
            ("an empty name", {"v3_and_below_transactional_id": ""}),
        ):
            broker.ask(producer.addition(topic, **stranger), version, note=name)
    broker.ask(described(producer.transactional_id), 0)


@conversation
def leaders_add_partitions(broker: TransactionTranscript) -> None:
    topic = broker.topic(partitions=3)
    for version in (4, 5):
        one, other = broker.producer(f"one{version}"), broker.producer(f"other{version}")
        broker.ask(together(one.part_of_batch(topic)), version)
        both = together(one.part_of_batch(topic, (0, 1)), other.part_of_batch(topic, (1,)))
        broker.ask(both, version, note="two")
        gone = together(one.part_of_batch(topic, (9,)), other.part_of_batch("nowhere"))
        broker.ask(gone, version, note="not there")
        broker.ask(described(one.transactional_id, other.transactional_id), 0)


@conversation
def leaders_verify_partitions(broker: TransactionTranscript) -> None:
    topic = broker.topic(partitions=3)
    for version in (4, 5):
        producer = broker.producer(f"id{version}")
        for step in ("before", "under way", "committed"):
            if step == "under way":
                producer.add(topic, (0, 1))
            if step == "committed":
                producer.end()
            for note, part in (
                ("joined", producer.part_of_batch(topic, (0, 1), verify_only=True)),
                ("some", producer.part_of_batch(topic, (0, 2), verify_only=True)),
                ("nowhere", producer.part_of_batch("nowhere", verify_only=True)),
                ("epoch", producer.part_of_batch(topic, verify_only=True, producer_epoch=7)),
                ("id", producer.part_of_batch(topic, verify_only=True, producer_id=NOBODY)),
                ("name", producer.part_of_batch(topic, verify_only=True, transactional_id="no")),
            ):
                broker.ask(together(part), version, note=f"{step} {note}")


@conversation
def offsets_are_added_to_a_transaction(broker: TransactionTranscript) -> None:
    producer = broker.producer()
    for version in range(5):
        for group, more in (
            ("group", {}),
            ("", {}),
            ("group", {"producer_id": NOBODY}),
            ("group", {"producer_epoch": 5}),
            ("group", {"transactional_id": ""}),
            ("group", {"transactional_id": "unknown"}),
        ):
            request = AddOffsetsToTxnRequest(
                transactional_id=producer.transactional_id,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                group_id=group,
            )
            broker.ask(request.replace(**more), version, note=f"{group} {[*more]}")
    broker.ask(described(producer.transactional_id), 0)


@conversation
def transactions_end_once(broker: TransactionTranscript) -> None:
    """Ends the transaction with version 1: the epoch does not change."""
    topic = broker.topic()
    for version in range(5):
        for committed in (True, False):
            producer = broker.producer(f"id{version}{committed}")
            broker.ask(producer.ending(committed=committed), version, note="nothing begun")
            producer.add(topic)
            broker.ask(producer.ending(committed=committed), version, note="under way")
            producer.until_complete()
            broker.ask(described(producer.transactional_id), 0)
            broker.ask(producer.ending(committed=committed), version, note="again")
            broker.ask(producer.ending(committed=not committed), version, note="the opposite")


@conversation
def other_producers_end_transactions(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    producer = broker.producer()
    producer.take_over()
    producer.add(topic)
    for version in range(6):
        for note, stranger in (
            ("another id", {"producer_id": NOBODY}),
            ("an old epoch", {"producer_epoch": 0}),
            ("a new epoch", {"producer_epoch": 9}),
            ("an unknown name", {"transactional_id": "unknown"}),
            ("an empty name", {"transactional_id": ""}),
        ):
            broker.ask(producer.ending(**stranger), version, note=note)
    broker.ask(described(producer.transactional_id), 0)


@conversation
def each_transaction_bumps_the_epoch(broker: TransactionTranscript) -> None:
    """Uses transaction version 2."""
    topic = broker.topic()
    for committed in (True, False):
        producer = broker.producer(f"id{committed}", version=5)
        for note in ("first", "second"):
            broker.ask(together(producer.part_of_batch(topic)), 5, note=note)
            ending = producer.ending(committed=committed)
            answer = broker.ask(ending, 5, note=note)
            producer.until_complete()
            broker.ask(described(producer.transactional_id), 0)
            broker.ask(ending, 5, note="repeats")
            opposite = producer.ending(committed=not committed)
            broker.ask(opposite, 5, note="repeats the opposite")
            broker.ask(together(producer.part_of_batch(topic)), 5, note="in the epoch before")
            producer.epoch = answer.producer_epoch


@conversation
def ends_without_a_transaction(broker: TransactionTranscript) -> None:
    producer = broker.producer(version=5)
    broker.ask(producer.ending(), 5, note="commits nothing")
    answer = broker.ask(producer.ending(committed=False), 5, note="aborts nothing")
    producer.until_complete()
    broker.ask(described(producer.transactional_id), 0)
    broker.ask(producer.ending(committed=False), 5, note="repeats")
    producer.epoch = answer.producer_epoch
    broker.ask(producer.ending(), 5, note="commits nothing")
    broker.ask(producer.ending(committed=False), 5, note="aborts nothing")
