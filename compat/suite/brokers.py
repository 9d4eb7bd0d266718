"""The brokers that a run is about: those that it starts, and one that is somewhere already."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compat.apache import ApacheKafka
from compat.apache.apache_kafka import SINGLE_NODE
from compat.apache.installation import KAFKA_VERSION
from compat.broker_process import BrokerProcess
from compat.suite.reference_client import ReferenceClient
from compat.suite.timeout_factor import scaled
from compat.wire import Closed, Wire
from pykbroker import __version__
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Address = tuple[str, int]
PORT_MAX = 65_535
GREETING_SECONDS_MAX = 10.0
PYKBROKER = "PyKBroker"
APACHE = "Apache Kafka"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Broker:
    """A cluster under test."""

    name: str
    version: str
    addresses: list[Address]
    restart: Callable[[], object] | None = None
    """Only where the suite started it."""
    data_dir: Path | None = None
    """Likewise."""
    log: Callable[[], str] = lambda: ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


@contextmanager
def pykbroker(directory: Path) -> Iterator[Broker]:
    """A node of the checkout, on a new data directory."""
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


def broker_names() -> tuple[str, str]:
    """What the two are called in reports, PyKBroker and its oracle as they are now."""
    return f"{PYKBROKER} {__version__}", f"{APACHE} {KAFKA_VERSION}"


def until_coordinating(bootstrap: str) -> None:
    """What the first client of a new cluster would meet is no part of a scenario."""
    reference = ReferenceClient(*addresses_in(bootstrap)[0])
    reference.until_coordinating()
    reference.close()


def must_speak_kafka(host: str, port: int) -> None:
    """A cell would wait long for what never answers, or answers in another protocol."""
    try:
        with Wire(port, host=host, patience_seconds=scaled(GREETING_SECONDS_MAX)) as wire:
            wire.ask(ApiVersionsRequest(), 0)
    except (TimeoutError, MalformedMessage, AssertionError) as error:
        raise Closed(f"what listens there does not answer as a Kafka broker: {error}") from error


def broker_at(bootstrap: str) -> Broker:
    """A broker of the user's."""
    return Broker(name=bootstrap, version="", addresses=addresses_in(bootstrap))


def addresses_in(bootstrap: str) -> list[Address]:
    addresses = []
    for one in bootstrap.split(","):
        host, _, port = one.strip().rpartition(":")
        if not host or not port.isdecimal() or int(port) > PORT_MAX:
            raise ValueError(f"{one!r} is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    return addresses
