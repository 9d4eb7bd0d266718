"""Compares `__transaction_state` of Apache Kafka and PyKBroker after the same requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker.coordinators.records import decode_record
from pykbroker.coordinators.transaction_log import TRANSACTION_RECORDS
from pykbroker.internal_topics import TRANSACTION_STATE
from pykbroker_protocol.internal_topics.transactions import TransactionLogKey, TransactionLogValue
from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from tests.apis.transactions.transcript import TransactionTranscript, together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from compat.apache import ApacheKafka
    from compat.broker_process import BrokerProcess

    Lies = tuple[object, ...]


def idle(client: TransactionTranscript) -> None:
    client.producer()


def taken_over_twice(client: TransactionTranscript) -> None:
    client.producer()
    client.producer(transaction_timeout_ms=30_000)


def committed_in_words_of_version_1(client: TransactionTranscript) -> None:
    topic = client.topic(partitions=3)
    producer = client.producer()
    producer.add(topic, (0,))
    producer.add(topic, (1, 2))
    producer.end()
    producer.add(topic, (0,))
    producer.end(committed=False)


def committed_in_words_of_version_2(client: TransactionTranscript) -> None:
    topic = client.topic(partitions=3)
    producer = client.producer(version=5)
    for committed in (True, False):
        client.quietly(together(producer.part_of_batch(topic, (1,))), 5)
        producer.end(committed=committed, version=5)
    producer.end(committed=False, version=5)


def taken_from_an_owner(client: TransactionTranscript) -> None:
    topic = client.topic()
    producer = client.producer(version=5)
    producer.add(topic)
    client.quietly(producer.claim(), 5)
    producer.until_complete()
    client.producer(version=5)


CONVERSATIONS = (
    idle,
    taken_over_twice,
    committed_in_words_of_version_1,
    committed_in_words_of_version_2,
    taken_from_an_owner,
)


@pytest.mark.parametrize("converse", CONVERSATIONS, ids=lambda it: it.__name__)
def test_records_of_transaction_state_equal_those_of_apache_kafka(
    converse: Callable[[TransactionTranscript], None],
    apache: ApacheKafka,
    pykbroker: BrokerProcess,
) -> None:
    theirs, ours = (
        left_behind(converse, broker.port, broker.data_dir) for broker in (apache, pykbroker)
    )
    assert ours == theirs
    assert ours


def left_behind(
    converse: Callable[[TransactionTranscript], None], port: int, folder: Path
) -> list[Lies]:
    client = TransactionTranscript(port, converse.__name__.replace("_", "-"), 1_700_000_000_123)
    try:
        converse(client)
    finally:
        client.close()
    return [
        it
        for file in sorted(folder.glob(f"{TRANSACTION_STATE}-*/*.log"))
        for batch in iterate_batches(file.read_bytes())
        if client.prefix.encode() in bytes(batch.view)
        for it in lies(file.parent.name, batch, client.prefix)
    ]


def lies(partition: str, batch: RecordBatch, prefix: str) -> Iterator[Lies]:
    """Returns records without offsets, timestamps and producer ids, which always differ.

    An abort without partitions is two records, in PyKBroker in one batch.
    """
    header = (
        partition,
        batch.attributes,
        batch.base_sequence,
        batch.producer_id,
        batch.producer_epoch,
        batch.partition_leader_epoch,
    )
    for it in batch.records():
        yield (*header, *record(it.key, it.value, prefix))


def record(key: bytes | None, value: bytes | None, prefix: str) -> Lies:
    assert key is not None
    name, state = decode_record(TRANSACTION_RECORDS, bytes(key), value)
    assert isinstance(name, TransactionLogKey)
    assert isinstance(state, TransactionLogValue)
    assert value is not None
    version = int.from_bytes(bytes(value[:2]), "big")
    same_id = state.previous_producer_id == state.producer_id
    return (
        name.transactional_id.removeprefix(prefix),
        version,
        state.transaction_status,
        state.producer_epoch,
        state.next_producer_id,
        state.next_producer_epoch,
        state.client_transaction_version,
        state.transaction_timeout_ms,
        None
        if state.transaction_partitions is None
        else sorted((it.topic, *sorted(it.partition_ids)) for it in state.transaction_partitions),
        "the same id" if same_id else state.previous_producer_id,
        state.transaction_start_timestamp_ms > 0,
        state.transaction_last_update_timestamp_ms > 0,
    )
