"""A relay with kafka-python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.structs import OffsetAndMetadata

from compat.clients import relay_program
from compat.clients.kafka_python_member import POLL_MS
from compat.clients.relay_program import (
    RECORDS_PER_POLL_MAX,
    TIMEOUT_SECONDS,
    Guarantee,
    Positions,
    RelayOptions,
    Results,
)
from pykbroker.testing.history import Client, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class KafkaPythonLibrary:
    error = KafkaError

    def __init__(self, options: RelayOptions) -> None:
        self.options = options
        self.listener: Listener | None = None
        self.has_offsets_left_over = False
        self.producer = KafkaProducer(**producer_settings(options))
        self.consumer = KafkaConsumer(
            bootstrap_servers=options.bootstrap,
            client_id=options.name,
            group_id=options.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=options.session_timeout_ms // 6,
            max_poll_records=RECORDS_PER_POLL_MAX,
            fetch_max_wait_ms=50,
            reconnect_backoff_max_ms=500,
        )

    def open(self, client: Client) -> None:
        if self.options.is_transactional:
            self.producer.init_transactions()
        if self.options.partitions is not None:
            own = [TopicPartition(self.options.source, it) for it in self.options.partitions]
            self.consumer.assign(own)
            client.assigned(*((self.options.source, it) for it in self.options.partitions))
            return
        self.listener = Listener(client, self.consumer)
        self.consumer.subscribe([self.options.source], listener=self.listener)

    def poll(self) -> list[Record]:
        try:
            found = self.consumer.poll(timeout_ms=POLL_MS)
        except KafkaConnectionError:  # retry like a user; the broker may restart
            return []
        if self.listener is not None and self.listener.fresh:
            self.start_afresh(self.listener)
            return []
        return [record_of(it) for records in found.values() for it in records]

    def start_afresh(self, listener: Listener) -> None:
        """Seeks to the committed offsets of new partitions.

        The library keeps its old position of a partition that it had before, even if another member
        had the partition meanwhile.
        """
        fresh, listener.fresh = listener.fresh, []
        for place in fresh:
            offset = self.consumer.committed(place) or 0
            self.consumer.seek(place, offset)
            listener.client.sought(place.topic, place.partition, offset)

    def seek(self, positions: Positions) -> Positions:
        own = {(it.topic, it.partition) for it in self.consumer.assignment()}
        kept = {place: offset for place, offset in positions.items() if place in own}
        for place, offset in kept.items():
            self.consumer.seek(TopicPartition(*place), offset)
        return kept

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, records: Sequence[tuple[int, str]]) -> Results:
        under_way = [
            self.producer.send(self.options.sink, value=value.encode(), partition=partition)
            for partition, value in records
        ]
        self.producer.flush(timeout=TIMEOUT_SECONDS)
        return [result_of(it) for it in under_way]

    def send_offsets(self, positions: Positions) -> None:
        self.has_offsets_left_over = True
        self.producer.send_offsets_to_transaction(offsets_of(positions), self.group_metadata())
        self.has_offsets_left_over = False

    def group_metadata(self) -> Any:
        """Returns the group metadata of the current assignment.

        After a loss of membership the library returns generation -1 and an empty member id. A
        broker accepts transactional offset commits with these values from any producer.
        """
        if self.listener is None:
            return self.consumer.group_metadata()
        return self.listener.group_metadata

    def commit(self) -> None:
        self.producer.commit_transaction()

    def abort(self) -> None:
        """Raises after rejected offsets, which the library would add to the next transaction."""
        self.producer.abort_transaction()
        if self.has_offsets_left_over:
            raise KafkaError("offsets of the aborted transaction are left over")

    def commit_offsets(self, positions: Positions) -> None:
        self.consumer.commit(offsets_of(positions))

    def close(self) -> None:
        self.consumer.close()
        self.producer.close(timeout=TIMEOUT_SECONDS)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc] # kafka-python is untyped
    def __init__(self, client: Client, consumer: Any) -> None:
        self.client = client
        self.consumer = consumer
        self.fresh: list[Any] = []
        self.group_metadata: Any = None

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.fresh = list(assigned)
        self.group_metadata = self.consumer.group_metadata()
        self.client.assigned(*((it.topic, it.partition) for it in assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.client.revoked(*((it.topic, it.partition) for it in revoked))

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.on_partitions_revoked(lost)


def producer_settings(options: RelayOptions) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap_servers": options.bootstrap,
        "client_id": options.name,
        "reconnect_backoff_max_ms": 500,
        "max_block_ms": 5_000,
        "request_timeout_ms": 4_000,
        "delivery_timeout_ms": 5_000,
    }
    match options.guarantee:
        case Guarantee.AT_MOST_ONCE:
            return {**settings, "enable_idempotence": False, "retries": 0, "acks": 1}
        case Guarantee.AT_LEAST_ONCE:
            in_turn = {"max_in_flight_requests_per_connection": 1}
            return {**settings, **in_turn, "enable_idempotence": False, "acks": "all"}
        case Guarantee.EXACTLY_ONCE:
            return {
                **settings,
                "transactional_id": options.transactional_id,
                "transaction_timeout_ms": options.transaction_timeout_ms,
            }


def offsets_of(positions: Positions) -> dict[Any, Any]:
    return {
        TopicPartition(*place): OffsetAndMetadata(offset, "", -1)
        for place, offset in positions.items()
    }


def record_of(found: Any) -> Record:
    return Record(found.topic, found.partition, found.offset, found.value.decode())


def result_of(under_way: Any) -> int | Exception:
    try:
        return int(under_way.get(timeout=TIMEOUT_SECONDS).offset)
    except KafkaError as error:
        return error  # type: ignore[no-any-return] # kafka-python is untyped


if __name__ == "__main__":
    relay_program.main(KafkaPythonLibrary)
