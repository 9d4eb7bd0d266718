"""What a scenario has to work with: the client under test, the broker, and a reference."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from compat.suite.actor import Actor, Step
from compat.suite.reference_client import ReferenceClient
from compat.suite.timeout_factor import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from compat.sabotage.frame_change import FrameChange
    from compat.suite.brokers import Broker
    from compat.suite.manifest import StockClient
    from compat.suite.process_pool import ProcessPool
    from compat.suite.relay import Relay, Relays
    from compat.suite.shared_restart import SharedRestart
    from pykbroker_protocol.api_keys import ApiKey

RESTART_SECONDS_MAX = 60.0


class NotServedError(Exception):
    """The broker does not offer what the scenario is about; the message names the API."""


@dataclass(slots=True, eq=False)
class ScenarioContext:
    """A context manager that leaves no process busy and no connection open."""

    stock_client: StockClient
    broker: Broker
    pool: ProcessPool
    relay: Relay
    deadline: float
    """On the monotonic clock."""
    shared_restart: SharedRestart | None = None
    has_restarted: bool = False
    word: str = field(default_factory=lambda: secrets.token_hex(4))
    steps: list[Step] = field(default_factory=list)
    actors: list[Actor] = field(default_factory=list)
    reference: ReferenceClient = field(init=False)
    _scratch: TemporaryDirectory[str] | None = None

    def __post_init__(self) -> None:
        self.reference = ReferenceClient(*self.broker.addresses[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.shared_restart is not None:
            self.shared_restart.leave(has_come=self.has_restarted)
        for actor in self.actors:
            self.pool.give_back(actor.process)
        self.reference.close()
        self.relay.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def client(self) -> Actor:
        """Another process of the client, connected through the relay."""
        actor = Actor(
            name=f"{self.word}-{len(self.actors)}",
            process=self.pool.take(self.stock_client),
            bootstrap=self.relay.bootstrap,
            deadline=self.deadline,
            steps=self.steps,
        )
        self.actors.append(actor)
        return actor

    def restart(self, topic: str, *, partitions: int = 1) -> None:
        """Restart the broker, for all who play the scenario now; a topic is then led again."""
        assert self.shared_restart is not None, "the scenario says that it needs a restart"
        self.has_restarted = True
        self.shared_restart()
        self.reference.until_ready(topic, partitions, seconds=RESTART_SECONDS_MAX)

    def kill(self, actor: Actor) -> None:
        """The actor's process ends without a word to the broker."""
        actor.process.kill()

    def must_serve(self, api: ApiKey) -> None:
        """End the scenario where the broker does not offer an API."""
        if not self.reference.is_served(api):
            name = "".join(word.capitalize() for word in api.name.split("_"))
            raise NotServedError(f"the broker does not serve {name}")

    @property
    def data_dir(self) -> Path:
        """Where the broker under test has its files."""
        assert self.broker.data_dir is not None, "the scenario says that it needs files"
        return self.broker.data_dir

    def scratch(self) -> Path:
        """A directory for whatever the scenario and its programs write; gone afterwards."""
        if self._scratch is None:
            self._scratch = TemporaryDirectory(prefix="compat-scratch-")
        return Path(self._scratch.name).resolve()

    def name(self, what: str = "topic") -> str:
        """A name that nobody else has."""
        return f"compat-{self.word}-{what}"

    def topic(
        self,
        what: str = "topic",
        *,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """A new topic, made by the reference, ready to be used.

        Nothing in it grows too old: scenarios write times of years ago.
        """
        name = self.name(what)
        self.reference.create_topic(name, partitions, {"retention.ms": "-1", **(configs or {})})
        return name

    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())


def open_context(  # noqa: PLR0917 (each is another thing)
    stock_client: StockClient,
    broker: Broker,
    pool: ProcessPool,
    relays: Relays,
    timeout_seconds: float,
    shared_restart: SharedRestart | None = None,
    frame_changes: tuple[FrameChange, ...] = (),
) -> ScenarioContext:
    return ScenarioContext(
        stock_client=stock_client,
        broker=broker,
        pool=pool,
        relay=relays.open(broker.addresses, frame_changes),
        deadline=time.monotonic() + scaled(timeout_seconds),
        shared_restart=shared_restart,
    )
