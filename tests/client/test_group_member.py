"""A group member joins, gets partitions, commits, rejoins on a rebalance and leaves."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pykbroker import AsyncBroker
from pykbroker.cli.command_line.values import address
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.committed_offsets import (
    TopicPartition,
    committed_offsets,
    delete_offsets,
)
from pykbroker.client.group_member import GroupMember

GROUP, TOPIC = "readers", "trucks"


@pytest.fixture
async def clients() -> AsyncIterator[list[ClusterClient]]:
    async with AsyncBroker({TOPIC: 4}, config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        clients = [await ClusterClient.connect([address(broker.bootstrap)]) for _ in range(3)]
        yield clients
        for client in clients:
            await client.close()


async def test_members_share_the_partitions_of_a_topic(clients: list[ClusterClient]) -> None:
    first, second = (GroupMember(client, GROUP, TOPIC) for client in clients[:2])
    assert await first.join() == [0, 1, 2, 3]
    assert await first.heartbeat()
    joining = asyncio.create_task(second.join())
    while await first.heartbeat():  # noqa: ASYNC110 - until the broker starts the rebalance
        await asyncio.sleep(0.01)
    shares = await asyncio.gather(first.join(), joining)
    assert sorted(partition for share in shares for partition in share) == [0, 1, 2, 3]
    assert [len(share) for share in shares] == [2, 2]
    await second.leave(clients[2], "test")
    assert not await first.heartbeat()
    assert await first.join() == [0, 1, 2, 3]


async def test_commits_of_a_member_are_stored_and_deleted(clients: list[ClusterClient]) -> None:
    member = GroupMember(clients[0], GROUP, TOPIC)
    await member.join()
    partitions = [TopicPartition(TOPIC, 1), TopicPartition(TOPIC, 3)]
    assert await member.commit({partitions[0]: 0, partitions[1]: 0})
    await member.leave(clients[2], "test")
    assert list(await committed_offsets(clients[1], GROUP)) == partitions
    await delete_offsets(clients[1], GROUP, partitions[:1])
    assert list(await committed_offsets(clients[1], GROUP)) == partitions[1:]


async def test_a_group_that_does_not_exist_has_no_committed_offsets(
    clients: list[ClusterClient],
) -> None:
    assert await committed_offsets(clients[0], "unknown") == {}
