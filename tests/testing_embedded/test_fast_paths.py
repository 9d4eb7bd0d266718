"""The fast paths of Produce and OffsetCommit serve the test kits, and faults still apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pykbroker import AsyncBroker
from pykbroker.apis import repeated_commit, repeated_produce
from pykbroker.testing.simulation import Simulation
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.apis.one_broker import Client, answer_of
from tests.storage.batches import batch_bytes

if TYPE_CHECKING:
    from pykbroker_protocol.message import Message


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules whose fast path has served a request, once for each."""
    served: list[str] = []
    for module in (repeated_produce, repeated_commit):
        answer = module.Repeats.answer

        def noted(self: Any, frame: memoryview, answer: Any = answer, module: Any = module) -> Any:
            response = answer(self, frame)
            if response is not None:
                served.append(module.__name__.rpartition("_")[2])
            return response

        monkeypatch.setattr(module.Repeats, "answer", noted)
    return served


def produce(topic: str = "orders") -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch_bytes([b"v"]))
    return ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def commit(offset: int) -> OffsetCommitRequest:
    committed = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id="g",
        member_id="",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[committed])],
    )


def produced(response: Any) -> int:
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def committed(response: Any) -> int:
    code: int = response.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize(
    ("request_", "version", "code_of", "api"),
    [(produce(), 9, produced, "PRODUCE"), (commit(7), 8, committed, "OFFSET_COMMIT")],
    ids=["Produce", "OffsetCommit"],
)
async def test_a_fault_applies_to_a_request_that_the_fast_path_would_serve(
    fast: list[str], request_: Message, version: int, code_of: Any, api: str
) -> None:
    async with AsyncBroker(topics=["orders", "__consumer_offsets"]) as kafka:
        client = Client(kafka._running)
        for _ in range(3):
            assert code_of(client.ask(request_, version)) == ErrorCode.NONE
        assert len(fast) == 2
        with kafka.faults.refuse(api, "NOT_COORDINATOR", times=1) as fault:
            assert code_of(client.ask(request_, version)) == ErrorCode.NOT_COORDINATOR
            assert fault.hits == 1
            assert code_of(client.ask(request_, version)) == ErrorCode.NONE
        assert len(fast) == 3
        assert str(kafka.timeline).count("NOT_COORDINATOR") == 2  # the fault and the response


async def test_a_fault_of_one_topic_applies_after_requests_of_another(fast: list[str]) -> None:
    async with AsyncBroker(topics=["orders", "trucks"]) as kafka:
        client = Client(kafka._running)
        for _ in range(2):
            client.ask(produce("orders"), 9)
            client.ask(produce("trucks"), 9)
        assert len(fast) == 2
        with kafka.faults.refuse("PRODUCE", "NOT_LEADER_OR_FOLLOWER", topic="trucks"):
            assert produced(client.ask(produce("orders"), 9)) == ErrorCode.NONE
            refused = await answer_of(client.ask(produce("trucks"), 9))
            assert produced(refused) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert len(fast) == 2


async def test_the_timeline_shows_errors_of_the_fast_path(fast: list[str]) -> None:
    async with AsyncBroker(topics=["orders"]) as kafka:
        client = Client(kafka._running)
        for _ in range(2):
            client.ask(produce(), 9)
        with kafka.faults.disk_full():
            assert produced(client.ask(produce(), 9)) == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(fast) == 2
        assert "Produce v9 of client 'client' at 127.0.0.1:1" in str(kafka.timeline)
        assert "KAFKA_STORAGE_ERROR" in str(kafka.timeline)


def test_the_simulator_uses_the_fast_path_and_traces_each_request(fast: list[str]) -> None:
    from aiokafka import AIOKafkaProducer

    records = 10

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(records):
                await producer.send_and_wait("orders", b"v", partition=0)

    async def story(world: Simulation) -> None:
        await world.start("producer", send())

    with Simulation(seed=1) as world:
        broker = world.broker(topics=["orders"])
        world.run(story(world))
        produces = [it for it in world.trace if it.text.startswith("Produce v")]
    assert fast == ["produce"] * (records - 1)
    assert len(produces) == records
