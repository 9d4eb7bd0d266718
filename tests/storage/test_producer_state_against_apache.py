"""Apache Kafka accepts and rejects the same batches, and reads our snapshot."""

import random
import socket
from collections.abc import Iterator
from pathlib import Path
from struct import Struct, pack

import pytest

from compat.apache import ApacheKafka, ApacheTools
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import SEQUENCE_MAX, RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_storage.producer import Duplicate
from pykbroker_storage.producer_state import ProducerStates, snapshot_file_name

NOW = 1_700_000_000_000
TOPIC = "judged"
LENGTH = Struct(">i")
# After the correlation id: topics, name, partitions, index, error code, base offset.
PRODUCED = Struct(f">iih{len(TOPIC)}siihq")


def batch(producer_id: int, epoch: int, sequence: int, count: int) -> RecordBatch:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    for _ in range(count):
        builder.append(NOW, None, b"v")
    return RecordBatch.parse(builder.build())


def random_batches(seed: int, count: int) -> Iterator[RecordBatch]:
    """Batches of two producers that often repeat, skip or reset sequences."""
    chance = random.Random(seed)
    epochs = {1: 0, 2: 3}
    sequences = {1: 0, 2: SEQUENCE_MAX - 6}
    sent: list[RecordBatch] = []
    for _ in range(count):
        producer_id = chance.choice((1, 2))
        match chance.choices(("next", "again", "skip", "epoch", "stale"), (60, 25, 8, 4, 3))[0]:
            case "again" if sent:
                yield chance.choice(sent[-14:])
                continue
            case "skip":
                skipped = sequences[producer_id] + chance.choice((-2, -1, 1, 2))
                yield batch(producer_id, epochs[producer_id], skipped & SEQUENCE_MAX, 1)
                continue
            case "epoch":
                epochs[producer_id] += 1
                sequences[producer_id] = chance.choice((0, 0, 5))
            case "stale":
                yield batch(producer_id, epochs[producer_id] - 1, sequences[producer_id], 1)
                continue
            case _:
                pass
        following = batch(
            producer_id, epochs[producer_id], sequences[producer_id], chance.randint(1, 3)
        )
        sequences[producer_id] = (following.last_sequence + 1) & SEQUENCE_MAX
        sent.append(following)
        yield following


class Ours:
    """A log that consists only of producer states."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.end_offset = 0

    def produce(self, sent: RecordBatch) -> tuple[ErrorCode, int]:
        verdict = self.states.check(sent)
        match verdict:
            case Refusal():
                return verdict.code, -1
            case Duplicate():
                return ErrorCode.NONE, verdict.first_offset
            case None:
                base_offset = self.end_offset
                self.states.update(sent, base_offset)
                self.end_offset += sent.record_count
                return ErrorCode.NONE, base_offset


def produce_to(connection: socket.socket, sent: RecordBatch) -> tuple[int, int]:
    """Encodes one Produce request, version 7."""
    name = TOPIC.encode()
    head = pack(">hhih", 0, 7, 1, -1) + pack(">hhiih", -1, -1, 10_000, 1, len(name)) + name
    body = head + pack(">iii", 1, 0, sent.size_bytes) + sent.view
    connection.sendall(LENGTH.pack(len(body)) + body)
    answer = connection.recv(LENGTH.unpack(connection.recv(4, socket.MSG_WAITALL))[0])
    *_, code, base_offset = PRODUCED.unpack_from(answer)
    return code, base_offset


@pytest.fixture
def connection(apache: ApacheKafka) -> Iterator[socket.socket]:
    created = apache.tool("topics", "--create", "--topic", TOPIC, "--partitions", 1)
    assert created.returncode == 0, created.stderr
    with socket.create_connection(("127.0.0.1", apache.port), timeout=30) as connected:
        yield connected


@pytest.mark.slow
def test_apache_kafka_accepts_and_rejects_the_same_batches(connection: socket.socket) -> None:
    ours = Ours()
    seen = set()
    for number, sent in enumerate(random_batches(seed=5, count=400)):
        answer = ours.produce(sent)
        assert answer == produce_to(connection, sent), (number, sent, sent.base_sequence)
        seen.add(answer[0])
    assert seen == {
        ErrorCode.NONE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }


@pytest.mark.slow
def test_apache_kafkas_tool_reads_our_snapshot(apache_tools: ApacheTools, tmp_path: Path) -> None:
    states = ProducerStates()
    states.update(batch(7, epoch=2, sequence=10, count=5), 100)
    snapshot = tmp_path / snapshot_file_name(105)
    snapshot.write_bytes(states.encode())
    assert (
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: -1 "
        "currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 1700000000000 "
        "firstSequence: 10 lastSequence: 14 lastOffset: 104 offsetDelta: 4"
    ) in apache_tools.dump_log(snapshot)
