"""Brokers of a cluster as processes, with one interface for both kinds."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from compat.apache.apache_kafka import free_port
from compat.apache.cluster_nodes import ApacheBroker
from compat.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from compat.apache import ApacheTools
    from compat.apache.cluster_nodes import ApacheController


class Kind(StrEnum):
    """Implementation of a broker."""

    APACHE = "apache"
    OWN = "own"


class Node(Protocol):
    """A broker process of either kind."""

    data_dir: Path
    port: int

    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def log_file(self) -> Path: ...

    def start(self, *, wait: bool = True) -> object: ...
    def wait_until_serving(self) -> None: ...
    def stop(self) -> object: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


SESSION_TIMEOUT_MS = 3000
BROKER_SETTINGS: dict[str, object] = {
    "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 3000,
    "replica.fetch.wait.max.ms": 200,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
}
APACHE_SETTINGS: dict[str, object] = {"log.cleaner.dedupe.buffer.size": 16_777_216}


def apache_broker(
    data_dir: Path,
    *,
    node_id: int,
    controller: ApacheController,
    settings: Mapping[str, object],
    tools: ApacheTools,
) -> Node:
    return ApacheBroker(
        data_dir,
        node_id=node_id,
        controller=controller,
        settings={**BROKER_SETTINGS, **APACHE_SETTINGS, **settings},
        tools=tools,
    )


def own_broker(
    data_dir: Path, *, node_id: int, controller: ApacheController, settings: Mapping[str, object]
) -> Node:
    return BrokerProcess(
        data_dir,
        port=free_port(),
        settings={**BROKER_SETTINGS, **settings},
        arguments=(
            *("--roles", "broker"),
            *("--node-id", str(node_id)),
            *("--controllers", f"127.0.0.1:{controller.controller_port}"),
        ),
    )
