"""The brokers of a run: started by the suite, or given by address."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compat.apache import ApacheKafka, WarmTools
from compat.apache.apache_kafka import SINGLE_NODE
from compat.apache.installation import KAFKA_VERSION
from compat.broker_process import BrokerProcess
from compat.cluster import Cluster
from compat.suite.reference_client import ReferenceClient
from compat.suite.timeout_factor import scaled
from compat.wire import Closed, Wire
from pykbroker import __version__
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from compat.cluster import Kind

Address = tuple[str, int]
PORT_MAX = 65_535
GREETING_SECONDS_MAX = 10.0
# Coordinators stay on one broker while leaders of other topics move.
INTERNAL_TOPICS = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
PYKBROKER = "PyKBroker"
APACHE = "Apache Kafka"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Broker:
    """A broker or cluster under test."""

    name: str
    version: str
    addresses: list[Address]
    restart: Callable[[], object] | None = None
    """None if the suite did not start the broker."""
    data_dir: Path | None = None
    """None if the suite did not start the broker."""
    move_leaders: Callable[[str], object] | None = None
    """Moves the leaders of all topics with this prefix. None if a scenario keeps its leaders."""
    log: Callable[[], str] = lambda: ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


@contextmanager
def pykbroker(directory: Path) -> Iterator[Broker]:
    """Starts PyKBroker from this checkout on a new data directory."""
    with BrokerProcess(directory / "pykbroker", settings=SINGLE_NODE) as node:
        until_coordinating(node.bootstrap)
        yield Broker(
            name=PYKBROKER,
            version=__version__,
            addresses=addresses_in(node.bootstrap),
            restart=node.restart,
            data_dir=node.data_dir,
            log=node.log,
        )


@contextmanager
def apache_kafka(directory: Path) -> Iterator[Broker]:
    with ApacheKafka(directory / "apache-kafka") as node:
        until_coordinating(node.bootstrap)
        yield Broker(
            name=APACHE,
            version=KAFKA_VERSION,
            addresses=addresses_in(node.bootstrap),
            restart=node.restart,
            data_dir=node.data_dir,
            log=node.log_tail,
        )


@contextmanager
def moving_cluster(directory: Path, kinds: Sequence[Kind]) -> Iterator[Broker]:
    """Starts brokers under a controller of Apache Kafka; leaders move while scenarios run."""
    with (
        WarmTools.open() as tools,
        Cluster(
            directory / "cluster",
            dict(enumerate(kinds, start=1)),
            tools=tools,
            settings=INTERNAL_TOPICS,
            controller_settings={**INTERNAL_TOPICS, "default.replication.factor": len(kinds)},
        ) as cluster,
    ):
        counts = Counter(map(str, kinds))
        yield Broker(
            name=f"cluster of {', '.join(f'{count} {kind}' for kind, count in counts.items())}",
            version="",
            addresses=addresses_in(cluster.bootstrap),
            move_leaders=cluster.move_leaders,
            log=cluster.describe,
        )


def broker_names() -> tuple[str, str]:
    """Returns the names of PyKBroker and Apache Kafka in reports, with current versions."""
    return f"{PYKBROKER} {__version__}", f"{APACHE} {KAFKA_VERSION}"


def until_coordinating(bootstrap: str) -> None:
    """Waits until the coordinators of a new cluster are loaded."""
    reference = ReferenceClient(*addresses_in(bootstrap)[0])
    reference.until_coordinating()
    reference.close()


def must_speak_kafka(host: str, port: int) -> None:
    """Raises Closed if the address does not respond to ApiVersions.

    Without this check, each cell would wait for its own timeout.
    """
    try:
        with Wire(port, host=host, patience_seconds=scaled(GREETING_SECONDS_MAX)) as wire:
            wire.ask(ApiVersionsRequest(), 0)
    except (TimeoutError, MalformedMessage, AssertionError) as error:
        raise Closed(f"no Kafka broker at this address: {error}") from error


def broker_at(bootstrap: str) -> Broker:
    """Returns a running broker that the suite did not start."""
    return Broker(name=bootstrap, version="", addresses=addresses_in(bootstrap))


def addresses_in(bootstrap: str) -> list[Address]:
    addresses = []
    for one in bootstrap.split(","):
        host, _, port = one.strip().rpartition(":")
        if not host or not port.isdecimal() or int(port) > PORT_MAX:
            raise ValueError(f"{one!r} is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    return addresses
