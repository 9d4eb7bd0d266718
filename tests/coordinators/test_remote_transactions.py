"""Transactions whose coordinator or partitions are on other brokers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.broker import Broker
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.controller_access import NewTopic
from pykbroker.coordination.transactions.outcome import Markers, TopicPartition
from pykbroker.coordinators import transaction_markers
from pykbroker.coordinators.remote_transactions import RemoteTransactions
from pykbroker.coordinators.transaction_log import (
    ADDING_VERSION,
    VERIFYING_VERSION,
    verdicts_of,
    verification_request,
)
from pykbroker.environment import Environment
from pykbroker.internal_topics import TRANSACTION_STATE
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from pykbroker_storage.filesystem import VolatileDisk
from tests.apis.one_broker import Client, answer_of
from tests.coordinators.transaction_node import (
    ELSEWHERE,
    HERE,
    NAME,
    TOPIC,
    TransactionNode,
    transaction_node,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from pykbroker.metadata.image import ClusterImage

HOME, AWAY = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
NONE = ErrorCode.NONE


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "RETRY_SECONDS_MIN", 0.001)
    monkeypatch.setattr(transaction_markers, "RETRY_SECONDS_MAX", 0.002)


class OtherBrokers:
    """Answers with prepared codes; after them, with success."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)
        self.markers: list[tuple[Markers, Sequence[TopicPartition]]] = []

    async def write_markers(
        self, markers: Markers, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        await asyncio.sleep(0)
        self.markers.append((markers, partitions))
        return dict.fromkeys(partitions, self.codes.pop(0) if self.codes else NONE)

    async def close(self) -> None: ...


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[TransactionNode]:
    """A coordinator with a producer and a topic, of which it leads one partition."""
    async with transaction_node(tmp_path / "data") as staged:
        staged.topic(TOPIC, 2)
        await staged.enter()
        await staged.join(HOME, AWAY)
        staged.lead(TOPIC, 1, leader=ELSEWHERE)
        yield staged


def reach(node: TransactionNode, others: Any) -> None:
    node.coordinator.reach_others(others)


@pytest.mark.parametrize("committed", [False, True])
async def test_the_leader_on_another_broker_writes_its_marker(
    node: TransactionNode, caplog: pytest.LogCaptureFixture, *, committed: bool
) -> None:
    others = OtherBrokers()
    reach(node, others)
    assert not (await node.end(committed=committed)).error_code
    await node.until(lambda: node.state == f"Complete{'Commit' if committed else 'Abort'}")
    ((markers, partitions),) = others.markers
    assert (markers.producer_id, markers.committed) == (node.producer_id, committed)
    assert partitions == [AWAY]
    assert node.markers_in([HOME, AWAY]) == [1, 0]
    assert not caplog.messages


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.LEADER_NOT_AVAILABLE,
    ],
)
async def test_a_marker_that_was_not_written_is_sent_again(
    node: TransactionNode, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    others = OtherBrokers(code, code)
    reach(node, others)
    await node.end()
    await node.until(lambda: node.state == "CompleteCommit")
    assert [partitions for _, partitions in others.markers] == [[AWAY]] * 3
    (line,) = caplog.messages
    assert f"{TOPIC}-1 not appended ({code.name}); retrying" in line


async def test_a_marker_is_written_here_if_the_leadership_comes_back(
    node: TransactionNode,
) -> None:
    class Moving(OtherBrokers):
        async def write_markers(
            self, markers: Markers, partitions: Sequence[TopicPartition]
        ) -> dict[TopicPartition, ErrorCode]:
            node.lead(TOPIC, 1, leader=HERE)
            return await super().write_markers(markers, partitions)

    others = Moving(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    reach(node, others)
    await node.end()
    await node.until(lambda: node.state == "CompleteCommit")
    assert len(others.markers) == 1
    assert node.markers_in([HOME, AWAY]) == [1, 1]


async def test_a_marker_of_a_newer_producer_epoch_counts_as_written(node: TransactionNode) -> None:
    reach(node, OtherBrokers(ErrorCode.INVALID_PRODUCER_EPOCH))
    await node.end()
    await node.until(lambda: node.state == "CompleteCommit")


async def test_a_newer_coordinator_completes_the_transaction(
    node: TransactionNode, caplog: pytest.LogCaptureFixture
) -> None:
    others = OtherBrokers(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    reach(node, others)
    await node.end()
    await node.until(lambda: caplog.messages)
    assert "has a marker of another coordinator" in caplog.text
    assert node.state == "PrepareCommit"


async def test_a_deleted_partition_on_another_broker_counts_as_complete(
    node: TransactionNode,
) -> None:
    reach(node, OtherBrokers(*[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 1000))
    await node.end()
    node.delete(TOPIC)
    await node.until(lambda: node.state == "CompleteCommit")


# --- requests to a broker with sockets


@asynccontextmanager
async def peer_on(directory: Path) -> AsyncIterator[Broker]:
    settings = load_settings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            "transaction.state.log.num.partitions": "1",
        }
    )
    broker = await Broker.start(settings, Environment(filesystem=VolatileDisk()))
    try:
        await broker.create_topics([(TOPIC, 2, 1), (TRANSACTION_STATE, 1, 1)])
        yield broker
    finally:
        await broker.stop()


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Broker]:
    async with peer_on(tmp_path / "peer") as broker:
        yield broker


@pytest.fixture
async def remote(peer: Broker) -> AsyncIterator[RemoteTransactions]:
    remote = RemoteTransactions(
        lambda: peer.image, "PLAINTEXT", ConnectionOptions(timeout_seconds=5.0)
    )
    yield remote
    await remote.close()


async def producer_of(peer: Broker) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
    answer = await answer_of(Client(peer).ask(request, 5))
    assert answer.error_code == NONE
    return answer.producer_id, answer.producer_epoch


async def add(
    remote: RemoteTransactions, producer: tuple[int, int], *, verify_only: bool = False
) -> set[ErrorCode]:
    request = verification_request(NAME, *producer, [HOME, AWAY], verify_only=verify_only)
    version = VERIFYING_VERSION if verify_only else ADDING_VERSION
    verdicts = verdicts_of(await remote.add_partitions(request, version=version))
    assert verdicts.keys() == {HOME, AWAY}
    return set(verdicts.values())


async def test_partitions_are_added_and_verified_at_the_coordinator_on_another_broker(
    peer: Broker, remote: RemoteTransactions
) -> None:
    producer = await producer_of(peer)
    assert await add(remote, producer, verify_only=True) == {ErrorCode.TRANSACTION_ABORTABLE}
    assert await add(remote, producer) == {NONE}
    assert await add(remote, producer, verify_only=True) == {NONE}
    fenced = producer[0], producer[1] - 1
    assert await add(remote, fenced) == {ErrorCode.INVALID_PRODUCER_EPOCH}


def without_coordinator(image: ClusterImage) -> None:
    topic = image.topics[TRANSACTION_STATE]
    partition = replace(topic.partitions[0], leader=-1)
    image.topics[TRANSACTION_STATE] = replace(topic, partitions=(partition,))


def without_topic(image: ClusterImage) -> None:
    del image.topics[TRANSACTION_STATE]


def fenced(image: ClusterImage) -> None:
    image.brokers[1] = replace(image.brokers[1], fenced=True)


def unreachable(image: ClusterImage) -> None:
    listeners = {"PLAINTEXT": ("127.0.0.1", 1)}
    image.brokers[1] = replace(image.brokers[1], listeners=listeners)


def without_listener(image: ClusterImage) -> None:
    image.brokers[1] = replace(image.brokers[1], listeners={})


@pytest.mark.parametrize(
    ("change", "code", "marker_code"),
    [
        (without_coordinator, ErrorCode.COORDINATOR_NOT_AVAILABLE, NONE),
        (without_topic, ErrorCode.COORDINATOR_NOT_AVAILABLE, NONE),
        (fenced, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE),
        (unreachable, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NETWORK_EXCEPTION),
        (without_listener, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NETWORK_EXCEPTION),
    ],
)
async def test_a_broker_that_cannot_be_reached_is_an_error_of_each_partition(
    peer: Broker,
    remote: RemoteTransactions,
    *,
    change: Any,
    code: ErrorCode,
    marker_code: ErrorCode,
) -> None:
    producer = await producer_of(peer)
    change(peer.image)
    assert await add(remote, producer) == {code}
    codes = await remote.write_markers(markers(*producer), [HOME, AWAY])
    assert codes == {HOME: marker_code, AWAY: marker_code}


def markers(producer_id: int, producer_epoch: int, coordinator_epoch: int = 0) -> Markers:
    return Markers(
        transactional_id=NAME,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        committed=True,
        transaction_version=2,
        partitions=(),
    )


async def test_the_error_of_each_marker_is_returned(
    peer: Broker, remote: RemoteTransactions
) -> None:
    assert await remote.write_markers(markers(7, 1, 5), [HOME]) == {HOME: NONE}
    missing = TopicPartition("missing", 0)
    found = await remote.write_markers(markers(7, 1, 4), [HOME, AWAY, missing])
    assert found == {
        HOME: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        AWAY: NONE,
        missing: ErrorCode.LEADER_NOT_AVAILABLE,
    }
    await peer.controller.create_topics([NewTopic(name="later", partitions=1)])
    later = TopicPartition("later", 0)
    assert await remote.write_markers(markers(7, 1), [later]) == {later: NONE}


async def test_a_leader_asks_the_coordinator_on_another_broker(
    tmp_path: Path, remote: RemoteTransactions, peer: Broker
) -> None:
    producer_id, producer_epoch = await producer_of(peer)
    async with transaction_node(tmp_path / "data") as node:
        node.topic(TOPIC, 2)
        node.lead(TRANSACTION_STATE, 0, leader=ELSEWHERE)
        node.producer_id, node.producer_epoch = producer_id, producer_epoch
        assert await node.join(HOME) == {ErrorCode.NOT_COORDINATOR}
        reach(node, remote)
        assert await node.join(HOME) == {NONE}
        assert await node.join(HOME, verify_only=True) == {NONE}
        assert await node.join(AWAY, verify_only=True) == {ErrorCode.TRANSACTION_ABORTABLE}
