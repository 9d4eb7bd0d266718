"""Apache Kafka's tools read the metadata log, and its broker starts on a copy."""

import base64
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from compat.apache import ApacheKafka, ApacheTools
from pykbroker.controller.controller import Controller
from pykbroker.controller_access import ConfigurationChange, NewTopic
from pykbroker.metadata.image import TopicImage
from pykbroker.metadata_log.snapshot_files import newest_snapshot
from pykbroker_storage.filesystem import LOCAL_DISK

ATTEMPTS_MAX = 5
Shown = TypeVar("Shown")


async def do_a_bit_of_everything(controller: Controller) -> list[TopicImage]:
    made = await controller.create_topics(
        [
            NewTopic(name="orders", partitions=3, configuration={"retention.ms": "3600000"}),
            NewTopic(name="payments", assignments={0: [1], 1: [1]}),
            NewTopic(name="gone", partitions=1),
        ]
    )
    await controller.delete_topics(["gone"])
    change = ConfigurationChange(
        resource_type=2, name="payments", operations=[("cleanup.policy", 0, "compact")]
    )
    assert await controller.alter_configurations([change]) == [None]
    assert await controller.allocate_producer_ids() == range(1000)
    return [topic for topic in made if isinstance(topic, TopicImage)][:2]


def polled_until(ask: Callable[[], Shown], is_whole: Callable[[Shown], bool]) -> Shown:
    """On a busy machine the metadata shell answers before it has published all records."""
    for _ in range(ATTEMPTS_MAX - 1):
        if is_whole(shown := ask()):
            return shown
    return ask()


def text_of(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


@pytest.mark.oracle
async def test_dump_log_decodes_every_record(node: Any, apache_tools: ApacheTools) -> None:
    controller = await node.start()
    await do_a_bit_of_everything(controller)
    await node.stop(controller)
    dump = apache_tools.dump_log(
        node.metadata / f"{0:020d}.log", options=["--cluster-metadata-decoder"]
    )
    types = set(re.findall(r'"type":"(\w+)"', dump))
    assert types == {
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "REMOVE_TOPIC_RECORD",
        "PRODUCER_IDS_RECORD",
    }
    assert 'LeaderChange: {"version":0,"leaderId":1' in dump
    assert "isvalid: false" not in dump


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["log", "snapshot"])
async def test_the_metadata_shell_loads(node: Any, apache_tools: ApacheTools, kind: str) -> None:
    controller = await node.start(snapshot_after_bytes=1 if kind == "snapshot" else 1 << 30)
    topics = await do_a_bit_of_everything(controller)
    await node.stop(controller)
    if kind == "snapshot":
        name = newest_snapshot(LOCAL_DISK, str(node.metadata))
        assert name is not None
        file = node.metadata / name.file_name
    else:
        file = node.metadata / f"{0:020d}.log"
    assert apache_tools
    shell = ApacheTools.installed()  # in a JVM of its own: the second shell in one stays silent
    expected = {f"/image/topics/byId/{text_of(topic.id)}" for topic in topics} | {
        f"/image/topics/byName/{topic.name}/{partition.index}"
        for topic in topics
        for partition in topic.partitions
    }
    assert expected <= polled_until(
        lambda: set(shell.metadata_shell(file, "find", "/image/topics").split()),
        expected.issubset,
    )
    policy = polled_until(
        lambda: shell.metadata_shell(
            file, "cat", "/image/configs/TOPIC:payments/cleanup.policy"
        ).strip(),
        "compact".__eq__,
    )
    assert policy == "compact"


@pytest.mark.oracle
@pytest.mark.parametrize("snapshot_after_bytes", [1 << 30, 1])
async def test_an_apache_node_starts_on_a_copy_and_has_the_same_topics(
    node: Any, tmp_path: Path, apache_tools: ApacheTools, snapshot_after_bytes: int
) -> None:
    assert apache_tools
    controller = await node.start(snapshot_after_bytes=snapshot_after_bytes)
    topics = await do_a_bit_of_everything(controller)
    await node.stop(controller)
    copy = shutil.copytree(node.path, tmp_path / "copy")
    with ApacheKafka(copy, heap="256m", node_id=1) as apache:
        described = apache.tool("topics", "--describe").stdout
        made = apache.tool("topics", "--create", "--topic", "later", "--partitions", 1)
        assert made.returncode == 0, made.stderr
    found = dict(re.findall(r"Topic: (\S+)\s+TopicId: (\S+)", described))
    assert found == {topic.name: text_of(topic.id) for topic in topics}
    assert "retention.ms=3600000" in described
    assert described.count("Leader: 1") == 5
    node.path = copy  # and back again
    returned = await node.start()
    assert list(returned.image.topics) == [*(topic.name for topic in topics), "later"]
    assert {it.leader for topic in returned.image.topics.values() for it in topic.partitions} == {1}
    assert (await returned.allocate_producer_ids()).start >= 1000
