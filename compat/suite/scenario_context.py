"""Context of a scenario: the tested client, the broker and the reference client."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from functools import partial
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
    """The broker does not advertise the API that the scenario tests."""


@dataclass(slots=True, eq=False)
class ScenarioContext:
    """A context manager that returns processes to the pool and closes connections."""

    stock_client: StockClient
    broker: Broker
    pool: ProcessPool
    relay: Relay
    deadline: float
    """On the monotonic clock."""
    word: str
    """In the names of all topics, groups and transactional ids of this run of the scenario."""
    shared_restart: SharedRestart | None = None
    has_restarted: bool = False
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
            self.shared_restart.leave(has_restarted=self.has_restarted)
        for actor in self.actors:
            self.pool.give_back(actor.process)
        self.reference.close()
        self.relay.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def client(self) -> Actor:
        """Takes a process of the tested client, connected through the relay."""
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
        """Restarts the broker, once for all concurrent cells; waits until the topic has leaders."""
        assert self.shared_restart is not None, "the scenario does not declare Need.RESTART"
        self.has_restarted = True
        self.shared_restart()
        self.reference.until_ready(topic, partitions, seconds=RESTART_SECONDS_MAX)

    def kill(self, actor: Actor) -> None:
        """Kills the process of an actor; its connections are not closed cleanly."""
        actor.process.kill()

    def must_serve(self, api: ApiKey) -> None:
        """Ends the scenario if the broker does not advertise an API."""
        if not self.reference.is_served(api):
            name = "".join(word.capitalize() for word in api.name.split("_"))
            raise NotServedError(f"the broker does not serve {name}")

    @property
    def data_dir(self) -> Path:
        """Data directory of the tested broker."""
        assert self.broker.data_dir is not None, "the scenario does not declare Need.FILES"
        return self.broker.data_dir

    def scratch(self) -> Path:
        """Returns a temporary directory that is deleted after the scenario."""
        if self._scratch is None:
            self._scratch = TemporaryDirectory(prefix="compat-scratch-")
        return Path(self._scratch.name).resolve()

    def name(self, what: str = "topic") -> str:
        """Returns a name that is unique to this scenario run."""
        return f"compat-{self.word}-{what}"

    def topic(
        self,
        what: str = "topic",
        *,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Creates a topic with the reference client and waits until it is ready.

        Retention is unlimited, because scenarios write timestamps of past years.
        """
        name = self.name(what)
        self.reference.create_topic(name, partitions, {"retention.ms": "-1", **(configs or {})})
        return name

    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())


def open_context(  # noqa: PLR0917 (the fields of the context)
    stock_client: StockClient,
    broker: Broker,
    pool: ProcessPool,
    relays: Relays,
    timeout_seconds: float,
    shared_restart: SharedRestart | None = None,
    frame_changes: tuple[FrameChange, ...] = (),
) -> ScenarioContext:
    word = secrets.token_hex(4)
    move_leaders = broker.move_leaders and partial(broker.move_leaders, f"compat-{word}-")
    return ScenarioContext(
        stock_client=stock_client,
        broker=broker,
        pool=pool,
        relay=relays.open(broker.addresses, frame_changes, move_leaders),
        word=word,
        deadline=time.monotonic() + scaled(timeout_seconds),
        shared_restart=shared_restart,
    )
