"""The metadata follower under a process of Apache Kafka that is only a controller.

Its metadata.version is first 3.7-IV4, the lowest that this broker accepts. The tests share one
controller, and each starts a follower in a new directory.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from compat.apache.cluster_nodes import ApacheController
from pykbroker.address import Address
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.membership.controller_channel import QuorumChannel
from pykbroker.membership.controller_quorum import ControllerQuorum
from pykbroker.membership.features import refuse_cluster
from pykbroker.membership.metadata_follower import CannotFollowMetadata
from pykbroker.membership.quorum_view import QuorumView
from pykbroker_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from pykbroker_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compat.apache import ApacheTools
    from pykbroker.membership.metadata_follower import MetadataFollower
    from pykbroker_protocol.message import Message
    from tests.membership.conftest import Followers

DEADLINE_SECONDS = 30.0
LEVEL_OF_3_7 = 19
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "600",
    "metadata.max.idle.interval.ms": "100",
}


class ControllerOf37(ApacheController):
    format_options = ("--release-version", "3.7-IV4")


@pytest.fixture(scope="module")
def controller(
    tmp_path_factory: pytest.TempPathFactory, apache_tools: ApacheTools
) -> Iterator[ApacheController]:
    data = tmp_path_factory.mktemp("controller") / "data"
    with ControllerOf37(data, node_id=3000, settings=SETTINGS, tools=apache_tools) as node:
        yield node


def address_of(controller: ApacheController) -> Address:
    return Address("127.0.0.1", controller.controller_port)


def run(controller: ApacheController, tool: str, *arguments: str) -> str:
    """Runs a tool against the controller and returns its output."""
    server = f"127.0.0.1:{controller.controller_port}"
    done = controller.tools.tool(tool, "--bootstrap-controller", server, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


async def is_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110  # no event announces it
            await asyncio.sleep(0.02)


async def caught_up(follower: MetadataFollower) -> MetadataFollower:
    async with asyncio.timeout(DEADLINE_SECONDS):
        await follower.caught_up()
    return follower


def original_from(controller: ApacheController, offset: int) -> bytes:
    """Returns the log of the controller from the batch at an offset on."""
    data = controller.metadata_log.read_bytes()
    position = 0
    while position < len(data) and int.from_bytes(data[position : position + 8], "big") < offset:
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return data[position:]


async def test_the_log_is_copied_byte_for_byte_at_level_3_7(
    controller: ApacheController, followers: Followers
) -> None:
    follower = await caught_up(await followers.start(address_of(controller)))
    assert follower.image.features["metadata.version"] == LEVEL_OF_3_7
    assert follower.image.controller_id == controller.node_id
    start = follower.log.start_offset
    end = follower.offset
    async with asyncio.timeout(DEADLINE_SECONDS):
        await follower.applied(end + 5)  # the controller appends a record without effect
    status = await asyncio.to_thread(
        run, controller, "metadata-quorum", "describe", "--replication"
    )
    assert [it.split()[-1] for it in status.splitlines() if it.startswith("7")] == ["Observer"]
    await followers.stop()
    copied = followers.log_bytes()
    assert copied
    assert original_from(controller, start).startswith(copied)


async def test_a_late_joiner_installs_the_snapshot_of_the_controller(
    controller: ApacheController, followers: Followers
) -> None:
    folder = controller.metadata_log.parent
    await is_true(lambda: bool(list(folder.glob("*.checkpoint"))))
    follower = await caught_up(await followers.start(address_of(controller)))
    assert follower.log.start_offset > 0
    (installed,) = followers.metadata.glob("*.checkpoint")
    assert installed.read_bytes() == (folder / installed.name).read_bytes()
    assert follower.image.features["metadata.version"] == LEVEL_OF_3_7
    await followers.stop()
    assert original_from(controller, follower.log.start_offset).startswith(followers.log_bytes())


async def test_a_restarted_follower_continues_its_log(
    controller: ApacheController, followers: Followers
) -> None:
    first = await caught_up(await followers.start(address_of(controller)))
    end, start = first.log.end_offset, first.log.start_offset
    await followers.crash()
    second = await followers.start(address_of(controller))
    assert second.log.end_offset >= end
    assert second.log.start_offset == start
    await caught_up(second)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await second.applied(end + 3)
    assert second.log.start_offset == start


async def test_a_restarted_controller_is_followed_in_its_new_epoch(
    controller: ApacheController, followers: Followers
) -> None:
    follower = await caught_up(await followers.start(address_of(controller)))
    epoch, start = follower.leader_epoch, follower.log.start_offset
    controller.kill()
    await asyncio.to_thread(controller.start)
    await is_true(lambda: follower.leader_epoch > epoch)
    end = follower.log.end_offset
    async with asyncio.timeout(DEADLINE_SECONDS):
        await follower.applied(end + 3)
    await followers.stop()
    assert original_from(controller, start).startswith(followers.log_bytes())


QUOTA = OpData(key="producer_byte_rate", value=1024.0, remove=False)


def quota_request(op: OpData) -> AlterClientQuotasRequest:
    entity = [EntityData(entity_type="client-id", entity_name="app")]
    return AlterClientQuotasRequest(
        entries=[EntryData(entity=entity, ops=[op])], validate_only=False
    )


CREDENTIAL = ScramCredentialUpsertion(
    name="alice", mechanism=1, iterations=4096, salt=b"s" * 16, salted_password=b"p" * 32
)
RESTRICTIONS: dict[str, tuple[Message, Message, type[Message]]] = {
    "client quotas": (
        quota_request(QUOTA),
        quota_request(QUOTA.replace(remove=True)),
        AlterClientQuotasResponse,
    ),
    "SCRAM credentials": (
        AlterUserScramCredentialsRequest(deletions=(), upsertions=[CREDENTIAL]),
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="alice", mechanism=1)], upsertions=()
        ),
        AlterUserScramCredentialsResponse,
    ),
}


async def send(controller: ApacheController, request: Message, response: type[Message]) -> None:
    """Sends a request that Apache Kafka's tools send to brokers only."""
    options = ConnectionOptions(timeout_seconds=5.0)
    quorum = ControllerQuorum(QuorumView(seeds=(address_of(controller),)), options)
    channel = QuorumChannel(quorum)
    answer = await channel.request(request, response)
    await channel.close()
    await quorum.close()
    (outcome,) = getattr(answer, "entries", None) or answer.results  # type: ignore[attr-defined]
    assert outcome.error_code == 0, outcome


@pytest.mark.parametrize("kind", RESTRICTIONS)
async def test_restrictions_of_clients_end_a_running_follower_and_refuse_the_next(
    controller: ApacheController, followers: Followers, kind: str
) -> None:
    addition, removal, response = RESTRICTIONS[kind]
    follower = await caught_up(await followers.start(address_of(controller)))
    await send(controller, addition, response)
    async with asyncio.timeout(DEADLINE_SECONDS):
        failure = await follower.until_failed()
    assert failure.follows
    assert f"{kind} (number: 1)" in failure.reason
    await followers.stop()
    with pytest.raises(CannotFollowMetadata, match=kind):
        await caught_up(await followers.start(address_of(controller)))
    await followers.stop()
    await send(controller, removal, response)
    await caught_up(await followers.start(address_of(controller)))


async def test_features_are_upgraded_while_the_follower_runs(
    controller: ApacheController, followers: Followers
) -> None:
    follower = await caught_up(await followers.start(address_of(controller)))
    before = follower.log.start_offset
    await asyncio.to_thread(run, controller, "features", "upgrade", "--release-version", "4.3")
    await is_true(lambda: follower.image.features.get("metadata.version") == 30)
    await is_true(lambda: follower.image.features.get("share.version") == 1)
    refusal = refuse_cluster(follower.image.features, [address_of(controller)])
    assert refusal is not None
    _, _, command = refusal.partition("--bootstrap-controller ")
    arguments = command.split()[1:]
    await asyncio.to_thread(run, controller, "features", *arguments)
    await is_true(lambda: refuse_cluster(follower.image.features, []) is None)
    await followers.stop()
    assert original_from(controller, before).startswith(followers.log_bytes())
