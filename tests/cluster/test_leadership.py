"""What clients and followers get while leadership moves or replicas are missing.

Each test runs with a leader of Apache Kafka, the oracle, and with one of PyKBroker.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest

from compat.wire import Wire
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.fetch import FetchRequest, ReplicaState
from pykbroker_protocol.messages.produce import ProduceRequest
from tests.apis.request_builders import (
    batch,
    fetched,
    from_partition,
    offsets_at,
    to_partition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat.cluster import Cluster

APACHE, OWN, OTHER_OWN = 1, 2, 3
LEADERS = pytest.mark.parametrize("leader", [APACHE, OWN])
PRODUCE_VERSION = 12
FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 7
LATEST = -1
NEVER_MS = 30_000
LAG_MS_MAX = 3_000
AT_ONCE_SECONDS = 10.0

pytestmark = pytest.mark.slow
_names = (f"led-{number}" for number in itertools.count())


@pytest.fixture(autouse=True)
def _continue_paused_brokers(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.bring_back()


def create(cluster: Cluster, *replicas: int, **configs: object) -> str:
    """Creates a topic of one partition and waits until its leader serves it."""
    name = next(_names)
    cluster.create_topic(name, {0: replicas}, **configs)
    with Wire(cluster.nodes[replicas[0]].port) as wire:
        cluster.wait_for(
            "the leader serves", lambda: latest(wire, name).error_code == ErrorCode.NONE
        )
    return name


def topic_led_by(cluster: Cluster, leader: int, **configs: object) -> tuple[str, int, int]:
    """Creates a topic of one partition on all brokers; returns its name and followers."""
    first, second = sorted({*cluster.nodes} - {leader}, reverse=True)
    return create(cluster, leader, first, second, **configs), first, second


def send_record(wire: Wire, topic: str, *, acks: int = -1, timeout_ms: int = NEVER_MS) -> None:
    records = batch(now_ms=time.time_ns() // 1_000_000)
    wire.send(
        ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[to_partition(records, topic=topic)]
        ),
        PRODUCE_VERSION,
    )


def produce_response(wire: Wire) -> Any:
    return wire.receive(ProduceRequest, PRODUCE_VERSION)


def produce(wire: Wire, topic: str, **options: int) -> Any:
    send_record(wire, topic, **options)
    return produce_response(wire).responses[0].partition_responses[0]


def fetch_request(
    cluster: Cluster, topic: str, offset: int, *, epoch: int = -1, **more: Any
) -> FetchRequest:
    topic_id = cluster.image().topics[topic].id
    part = from_partition(offset, topic_id=topic_id, current_leader_epoch=epoch)
    return fetched(part, **more)


def fetch_row(response: Any) -> Any:
    return response.responses[0].partitions[0]


def latest(wire: Wire, topic: str) -> Any:
    (request,) = offsets_at(topic, [LATEST])
    return wire.ask(request, LIST_OFFSETS_VERSION).topics[0].partitions[0]


@LEADERS
def test_waiting_producer_gets_not_leader_with_the_new_leader(
    cluster: Cluster, leader: int
) -> None:
    topic, successor, paused = topic_led_by(cluster, leader, min_insync_replicas=2)
    with Wire(cluster.nodes[leader].port) as wire:
        assert produce(wire, topic).error_code == ErrorCode.NONE
        cluster.nodes[paused].pause()
        send_record(wire, topic)
        cluster.lead(topic, {0: (successor, leader, paused)})
        moved = time.monotonic()
        response = produce_response(wire)
        assert time.monotonic() - moved < AT_ONCE_SECONDS
    row = response.responses[0].partition_responses[0]
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert row.current_leader.leader_id == successor
    assert row.current_leader.leader_epoch == cluster.partition(topic).leader_epoch
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.port) == (successor, cluster.nodes[successor].port)


@LEADERS
def test_waiting_fetch_gets_not_leader_with_the_new_leader(cluster: Cluster, leader: int) -> None:
    topic, successor, other = topic_led_by(cluster, leader)
    with Wire(cluster.nodes[leader].port) as wire:
        offset = produce(wire, topic).base_offset + 1
        epoch = cluster.partition(topic).leader_epoch
        request = fetch_request(cluster, topic, offset, epoch=epoch, max_wait_ms=NEVER_MS)
        wire.send(request, FETCH_VERSION)
        cluster.lead(topic, {0: (successor, leader, other)})
        moved = time.monotonic()
        response = wire.receive(FetchRequest, FETCH_VERSION)
        assert time.monotonic() - moved < AT_ONCE_SECONDS
    row = fetch_row(response)
    assert row.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    assert row.current_leader.leader_id == successor
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.port) == (successor, cluster.nodes[successor].port)


@LEADERS
def test_acks_all_fails_below_min_insync_replicas_and_succeeds_again(
    cluster: Cluster, leader: int
) -> None:
    topic, *followers = topic_led_by(cluster, leader, min_insync_replicas=2)
    with Wire(cluster.nodes[leader].port) as wire:
        offset = produce(wire, topic).base_offset
        for follower in followers:
            cluster.nodes[follower].pause()
        row = produce(wire, topic, timeout_ms=LAG_MS_MAX + 3000)
        assert row.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert cluster.partition(topic).in_sync == (leader,)
        eligible = {*cluster.partition(topic).eligible}
        assert eligible
        assert eligible <= {*followers}
        assert produce(wire, topic).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert produce(wire, topic, acks=1).base_offset == offset + 2
        row = fetch_row(wire.ask(fetch_request(cluster, topic, offset + 1), FETCH_VERSION))
        assert (row.error_code, row.high_watermark, bytes(row.records or b"")) == (
            ErrorCode.NONE,
            offset + 1,
            b"",
        )
        cluster.bring_back()
        cluster.wait_until_in_sync(topic)
        row = produce(wire, topic)
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, offset + 3)


@LEADERS
def test_leader_below_min_insync_replicas_does_not_answer_latest_offset_before_its_epoch(
    cluster: Cluster, leader: int
) -> None:
    """KIP-207: the new leader has the record, but has not learned that it is committed."""
    old = OTHER_OWN
    topic = create(cluster, old, leader, min_insync_replicas=2)
    with Wire(cluster.nodes[old].port) as wire:
        offset = produce(wire, topic).base_offset
        cluster.nodes[old].kill()
    cluster.wait_for("the follower leads", lambda: cluster.partition(topic).leader == leader)
    with Wire(cluster.nodes[leader].port) as wire:
        cluster.wait_for(
            "the broker knows its leadership",
            lambda: latest(wire, topic).error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )
        assert latest(wire, topic).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        row = fetch_row(wire.ask(fetch_request(cluster, topic, offset + 1), FETCH_VERSION))
        assert (row.error_code, bytes(row.records or b"")) == (ErrorCode.NONE, b"")
        cluster.bring_back()
        cluster.wait_until_in_sync(topic)
        cluster.wait_for(
            "the latest offset is known", lambda: latest(wire, topic).error_code == ErrorCode.NONE
        )
        assert latest(wire, topic).offset == offset + 1


@LEADERS
def test_fetch_of_a_broker_that_is_not_a_replica_fails(cluster: Cluster, leader: int) -> None:
    topic = create(cluster, leader)
    stranger = OTHER_OWN
    state = ReplicaState(replica_id=stranger, replica_epoch=cluster.image().brokers[stranger].epoch)
    with Wire(cluster.nodes[leader].port) as wire:
        produce(wire, topic)
        request = fetch_request(cluster, topic, 0, replica_state=state)
        row = fetch_row(wire.ask(request, FETCH_VERSION))
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
