"""Starts a cluster on loopback, waits for states of its metadata, and moves leadership."""

from __future__ import annotations

import shutil
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Self

from compat.apache.apache_kafka import CLUSTER_ID
from compat.apache.cluster_nodes import ApacheController
from compat.cluster import requests
from compat.cluster.committed_metadata import CommittedMetadata
from compat.cluster.nodes import SESSION_TIMEOUT_MS, Kind, apache_broker, own_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from compat.apache import ApacheTools
    from compat.cluster.nodes import Node
    from compat.cluster.requests import Assignment
    from pykbroker.metadata.image import ClusterImage, PartitionImage

CONTROLLER_ID = 100
STATE_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.05
_LOG_LINES = 40

# Leadership moves only when a test requests it or a broker fails.
CONTROLLER_SETTINGS: dict[str, object] = {
    "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}


class NotReachedError(AssertionError):
    """The cluster did not reach a state in time; the message describes the present state."""


class Cluster:
    """One controller of Apache Kafka and several brokers. The context manager starts them."""

    def __init__(
        self,
        directory: Path,
        kinds: Mapping[int, Kind],
        *,
        tools: ApacheTools,
        settings: Mapping[str, object] | None = None,
        controller_settings: Mapping[str, object] | None = None,
    ) -> None:
        self.kinds = dict(kinds)
        self.tools = tools
        self.controller = ApacheController(
            directory / "controller",
            node_id=CONTROLLER_ID,
            settings={**CONTROLLER_SETTINGS, **(controller_settings or {})},
            tools=tools,
        )
        self.nodes: dict[int, Node] = {
            node_id: self._node(directory / f"{kind}-{node_id}", node_id, kind, settings or {})
            for node_id, kind in kinds.items()
        }
        self._reading = threading.Lock()
        self._metadata = CommittedMetadata(self.controller.metadata_log, cluster_id=CLUSTER_ID)

    def _node(
        self, data_dir: Path, node_id: int, kind: Kind, settings: Mapping[str, object]
    ) -> Node:
        if kind is Kind.OWN:
            return own_broker(
                data_dir, node_id=node_id, controller=self.controller, settings=settings
            )
        return apache_broker(
            data_dir,
            node_id=node_id,
            controller=self.controller,
            settings=settings,
            tools=self.tools,
        )

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> Self:
        """Starts all nodes at once and waits until every broker is unfenced."""
        self.controller.start()
        for node in self.nodes.values():
            node.start(wait=False)
        for node in self.nodes.values():
            node.wait_until_serving()
        self.wait_until_unfenced(*self.nodes)
        return self

    def close(self) -> None:
        """Ends all processes with SIGKILL. Tests of clean shutdowns stop their nodes themselves."""
        for node in (*self.nodes.values(), self.controller):
            node.kill()

    def bring_back(self) -> None:
        """Starts the brokers that do not run, continues paused ones and waits for all."""
        for node in self.nodes.values():
            if node.is_running:
                node.resume()
            else:
                node.start(wait=False)
        for node in self.nodes.values():
            node.wait_until_serving()
        self.wait_until_unfenced(*self.nodes)

    def wipe(self, node_id: int) -> None:
        """Deletes the data directory of a broker that does not run."""
        node = self.nodes[node_id]
        assert not node.is_running
        shutil.rmtree(node.data_dir)

    # --- metadata

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def image(self) -> ClusterImage:
        """Returns the committed metadata."""
        with self._reading:
            return self._metadata.image()

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        return self.image().topics[topic].partitions[index]

    def partitions(self, topic: str) -> tuple[PartitionImage, ...]:
        return self.image().topics[topic].partitions

    def is_unfenced(self, node_id: int) -> bool:
        broker = self.image().brokers.get(node_id)
        return broker is not None and not broker.fenced

    def wait_until_unfenced(self, *node_ids: int) -> None:
        self.wait_for(
            f"brokers {node_ids} are unfenced", lambda: all(map(self.is_unfenced, node_ids))
        )

    def wait_until_fenced(self, node_id: int) -> None:
        self.wait_for(f"broker {node_id} is fenced", lambda: not self.is_unfenced(node_id))

    def wait_until_in_sync(self, *topics: str, timeout: float = STATE_TIMEOUT_SECONDS) -> None:
        """Waits until all replicas of the topics are in sync."""

        def all_in_sync() -> bool:
            return all(
                {*it.in_sync} == {*it.replicas} for topic in topics for it in self.partitions(topic)
            )

        self.wait_for(f"all replicas of {topics} are in sync", all_in_sync, timeout=timeout)

    def wait_for(
        self, what: str, condition: Callable[[], bool], *, timeout: float = STATE_TIMEOUT_SECONDS
    ) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise NotReachedError(f"not within {timeout:.0f} s: {what}\n{self.describe()}")
            time.sleep(_POLL_SECONDS)

    # --- topics

    def create_topic(self, name: str, assignment: Assignment, **configs: object) -> None:
        """Creates a topic and waits until its brokers lead and follow its partitions."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        requests.create_topic(self.controller.controller_port, name, assignment, named)
        self.wait_until_in_sync(name)
        for node_id in {it for replicas in assignment.values() for it in replicas}:
            node = self.nodes[node_id]
            if node.is_running:
                self.wait_for(
                    f"broker {node_id} has the metadata of {name}",
                    partial(requests.has_topic, node.port, name),
                )

    def lead(self, topic: str, assignment: Assignment) -> None:
        """Makes the first replica of each partition the leader. All must be in sync."""
        port = self.controller.controller_port
        requests.reassign(port, topic, assignment)

        def elected() -> bool:
            partitions = self.partitions(topic)
            waiting = [it for it in assignment if partitions[it].leader != assignment[it][0]]
            if waiting:
                requests.elect_preferred_leaders(port, topic, waiting)
            return not waiting

        self.wait_for(f"leaders of {topic} are the first of {assignment}", elected)

    def move_leaders(self, prefix: str) -> None:
        """Makes the next replica of each partition the leader, in all topics with the prefix."""
        for name in [it for it in self.image().topics if it.startswith(prefix)]:
            self.wait_until_in_sync(name)
            rotated = {
                it.index: (*it.replicas[1:], it.replicas[0])
                for it in self.partitions(name)
                if len(it.replicas) > 1
            }
            if rotated:
                self.lead(name, rotated)

    def describe(self) -> str:
        """Returns brokers and partitions as text for failure reports."""
        image = self.image()
        lines = [
            f"broker {it.id}: epoch {it.epoch}, {'fenced' if it.fenced else 'unfenced'}"
            f"{', in controlled shutdown' if it.in_controlled_shutdown else ''}"
            for it in image.brokers.values()
        ]
        lines += [
            f"{topic.name}-{it.index}: leader {it.leader} (epoch {it.leader_epoch}), replicas "
            f"{[*it.replicas]}, in sync {[*it.in_sync]}, ELR {[*it.eligible]}"
            for topic in image.topics.values()
            for it in topic.partitions
        ]
        return "\n".join(lines)

    def logs(self) -> Iterable[tuple[str, Callable[[], str]]]:
        """Returns a name and a function that reads the end of the log, for each process."""
        yield "controller", lambda: _tail(self.controller.log_file)
        for node_id, node in self.nodes.items():
            path = node.log_file
            yield f"broker {node_id}", lambda path=path: _tail(path)  # type: ignore[misc]


def _tail(log: Path) -> str:
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
