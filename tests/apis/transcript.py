"""One conversation held with a broker, written down so that two brokers can be compared.

What must differ between two clusters is replaced by a word for it: a topic's id by `id of <topic>`,
the broker's own address by `here`, a producer id by `a producer id`. What merely may differ is
listed in `MAY_DIFFER` with the reason.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import ZERO_UUID, Message
from pykbroker_protocol.messages import create_topics, metadata
from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from pykbroker_protocol.records.corrupt import CorruptBatch, TruncatedBatch
from tests.apis.request_builders import fetched, from_partition, new_producer_id
from tests.apis.wire import Closed, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Plain = Any
"""A message as lists, dicts and strings."""

MAY_DIFFER = {
    "throttle_time_ms": "quotas are a matter of load",
    "error_message": "decision 0006: sentences are ours",
    "batch_index_error_message": "decision 0006: sentences are ours",
    "documentation": "decision 0006: sentences are ours",
    "cluster_id": "clusters have their own",
    "finalized_features_epoch": "an offset in the cluster's own metadata log",
    "log_dir": "each has its directory",
    "total_bytes": "each has its disk",
    "usable_bytes": "each has its disk",
}

SET_FOR_ALL_BROKERS = {
    "config_source": "eligible leader replicas, finalised there, store a default for the cluster",
    "synonyms": "likewise",
}

NAMES = {code.value: code.name for code in ErrorCode}

PLAIN_WORDS: dict[str, Callable[[int], Plain]] = {
    "error_code": NAMES.__getitem__,
    "session_id": lambda number: "a session" if number else 0,
    "producer_id": lambda number: "a producer id" if number >= 0 else number,
}

TIMES = (
    "base_timestamp",
    "timestamp",
    "last_timestamp",
    "log_append_time_ms",
    "transaction_start_time_ms",
)
NO_ADDRESS = "", -1
READY_SECONDS_MAX = 20.0


class Answered(NamedTuple):
    question: str
    answer: Plain
    known_difference: str


class Transcript:
    """Sends requests to one broker and records the responses."""

    def __init__(self, port: int, prefix: str, now_ms: int) -> None:
        self.port = port
        self.prefix = prefix
        self.now_ms = now_ms
        self.record: list[Answered] = []
        self.reason = ""
        self.wire = Wire(port)
        self.words: dict[bytes, str] = {ZERO_UUID: "no id"}
        self.settled = 0

    def close(self) -> None:
        self.wire.close()

    # --- Requests

    def ask(self, request: Message, version: int, *, note: str = "") -> Any:
        """Sends a request and records the response or the closed connection."""
        name = f"{type(request).__name__} v{version}{' ' if note else ''}{note}"
        try:
            response = self.wire.ask(request, version)
        except Closed:
            self.note(name, "closed the connection")
            self.reconnect()
            return None
        self.note(name, self.plain(response))
        return response

    def ask_frame(self, frame: bytes, note: str) -> bytes | None:
        """Sends a frame that the codec would not encode."""
        try:
            self.wire.send_frame(frame)
            answer = self.wire.receive_frame()
        except Closed:
            self.note(note, "closed the connection")
            self.reconnect()
            return None
        self.note(note, answer[4:].hex())
        return answer

    def quietly(self, request: Message, version: int) -> Any:
        return self.wire.ask(request, version)

    def reconnect(self) -> None:
        self.wire.close()
        self.wire = Wire(self.port)

    def note(self, name: str, value: Plain) -> None:
        self.record.append(Answered(name, value, self.reason))

    @contextmanager
    def known_difference(self, title: str) -> Iterator[None]:
        """Marks requests whose responses differ as described in compat/known_differences.md."""
        self.reason = title
        yield
        self.reason = ""

    def producer_id(self) -> int:
        """Apache Kafka has no producer ids immediately after its start."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while (answer := self.quietly(new_producer_id(), 4)).error_code != ErrorCode.NONE:
            assert time.monotonic() < deadline, answer
            time.sleep(0.01)
        return int(answer.producer_id)

    # --- Topics

    def topic(
        self, name: str = "topic", *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """Creates a topic without recording it and waits until it can be used."""
        full_name = f"{self.prefix}-{name}"
        response = self.quietly(
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(
                        name=full_name,
                        num_partitions=partitions,
                        replication_factor=1,
                        assignments=(),
                        configs=[
                            create_topics.CreatableTopicConfig(name=key, value=value)
                            for key, value in (configs or {}).items()
                        ],
                    )
                ]
            ),
            7,
        )
        assert response.topics[0].error_code == 0, response
        return self.until_ready(full_name, partitions)

    def until_ready(self, name: str, partitions: int = 1) -> Topic:
        """Waits until the broker has applied the creation of a topic."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            topic = self.metadata_of(name)
            if self.is_led(topic, partitions):
                self.words[topic.topic_id] = f"id of {name}"
                return Topic(name, topic.topic_id)
            assert time.monotonic() < deadline, topic
            time.sleep(0.01)

    def is_led(self, topic: Any, partitions: int) -> bool:
        """Apache Kafka returns partitions in Metadata slightly before it serves them."""
        if topic.error_code != ErrorCode.NONE or len(topic.partitions) != partitions:
            return False
        found = [
            self.quietly(fetched(from_partition(0, topic=topic.name, partition=index)), 11)
            for index in range(partitions)
        ]
        return all(
            it.responses[0].partitions[0].error_code
            in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
            for it in found
        )

    def settle(self) -> None:
        """Waits for earlier changes: Apache Kafka applies a new topic after them.

        When the second topic exists, the change that created the first is applied everywhere.
        """
        for _ in range(2):
            self.settled += 1
            self.topic(f"settled-{self.settled}")

    def until_gone(self, name: str) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while self.metadata_of(name).error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def metadata_of(self, name: str) -> Any:
        request = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        return self.quietly(request, 12).topics[0]

    def new_word(self, uuid: bytes, word: str) -> None:
        self.words[uuid] = word

    # --- Recording

    def plain(self, message: Message) -> Plain:
        values = {name: getattr(message, name) for name in message.defaults}
        if "host" in values and (values["host"], values["port"]) != NO_ADDRESS:
            is_here = (values["host"], values["port"]) == ("127.0.0.1", self.port)
            values["host"] = values["port"] = "here" if is_here else "elsewhere"
        if values.get("topic_id"):
            values["topic_id"] = self.words.get(bytes(values["topic_id"]), "an id")
        left_out = MAY_DIFFER
        if values.get("name") == "min.insync.replicas":
            left_out = MAY_DIFFER | SET_FOR_ALL_BROKERS
        return {
            name: self.plain_value(name, value)
            for name, value in values.items()
            if name not in left_out
        }

    def plain_value(self, name: str, value: Any) -> Plain:
        if isinstance(value, Message):
            return self.plain(value)
        if name in TIMES:
            return self.plain_time(value)
        if name in PLAIN_WORDS:
            return PLAIN_WORDS[name](value)
        if name == "records":
            return [self.plain_batch(it) for it in whole_batches(bytes(value or b""))]
        if isinstance(value, (list, tuple)):
            return sorted((self.plain_value("", it) for it in value), key=place)
        return value

    def plain_time(self, value: int) -> Plain:
        """Keeps timestamps of the test and replaces those of the broker by `now`."""
        if value < 0 or value % 1000 == self.now_ms % 1000:
            return value - self.now_ms if value >= 0 else value
        return "now" if abs(value - self.now_ms) < 600_000 else value

    def plain_batch(self, batch: RecordBatch) -> Plain:
        return {
            "base_offset": batch.base_offset,
            "leader_epoch": batch.partition_leader_epoch,
            "attributes": batch.attributes,
            "sequence": batch.base_sequence,
            "producer_epoch": batch.producer_epoch,
            "is_crc_valid": batch.is_crc_valid(),
            "max_timestamp": self.plain_time(batch.max_timestamp),
            "records": self.plain_records(batch),
        }

    def plain_records(self, batch: RecordBatch) -> Plain:
        try:
            return [
                (it.offset, self.plain_time(it.timestamp), it.key, it.value, it.headers)
                for it in batch.records()
            ]
        except CorruptBatch:
            return "unreadable"


SomeTranscript = TypeVar("SomeTranscript", bound=Transcript)


def answers_of(
    broker: SomeTranscript, conversation: Callable[[SomeTranscript], None]
) -> list[Answered]:
    """Runs a conversation, closes the connections and returns the responses."""
    try:
        conversation(broker)
    finally:
        broker.close()
    return broker.record


def whole_batches(records: bytes) -> Iterator[RecordBatch]:
    """Omits a partial last batch: Apache Kafka can cut it at a limit, and clients ignore it."""
    try:
        yield from iterate_batches(records)
    except TruncatedBatch:
        return


def place(value: Plain) -> tuple[str, int]:
    """Sorts topics and partitions, whose order is undefined."""
    if not isinstance(value, dict):
        return "", 0
    name = value.get("name") or value.get("topic") or value.get("topic_id") or ""
    numbers = (value.get(it, 0) for it in ("index", "partition", "partition_index", "api_key"))
    return str(name), max(numbers)


class Topic:
    """A topic of one of the two clusters."""

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.id = topic_id
