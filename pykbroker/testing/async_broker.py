"""A broker in the caller's own event loop."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from pykbroker.broker import Broker, CannotStart
from pykbroker.extras import missing_extra
from pykbroker.settings import InvalidSetting
from pykbroker.testing import broker_reset, inspection
from pykbroker.testing.broker_options import Topics, beside, wanted_settings, wanted_topics
from pykbroker.testing.data_copy import copy_beside, copy_within, save_data
from pykbroker.testing.direct_access import DirectAccess
from pykbroker.testing.embedded_environment import embedded_environment
from pykbroker.testing.faults import Faults
from pykbroker.testing.faulty_disk import FaultyDisk
from pykbroker.testing.movable_clock import MovableClock
from pykbroker.testing.profiles.offers import UnknownVersion, offer_as
from pykbroker.testing.snapshot_restore import replace_content
from pykbroker.testing.temporary_directory import (
    UnclaimedDirectory,
    make_directory,
    remove_directory,
)
from pykbroker.testing.timeline import Timeline, offsets_at_the_end
from pykbroker_protocol.errors import Refusal

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Sequence

    import pyarrow as pa

    from pykbroker.controller.topics import NewTopic
    from pykbroker.settings import Settings
    from pykbroker.testing.broker_options import Config
    from pykbroker.testing.replaying.player import Replay
    from pykbroker.testing.rows import Record

Result = TypeVar("Result")

WAIT_SECONDS = 10.0
LOADING_SECONDS_MAX = 5.0
"""Time that a start waits for coordinators to load; a disk with a fault may need longer."""
ALREADY_RUNNING = "this broker is running already"
NOT_RUNNING = "the broker is not running: use it in a with statement, or start it"
DOWN = "the broker is down: there is an outage, or it could not start again; restart() starts it"


class NotRunning(RuntimeError):
    """The broker was not started, or is stopped already."""


class TopicRefused(Exception):
    """The broker does not make such a topic."""


class AsyncBroker(DirectAccess):
    """A whole Kafka broker: topics and properties in, an address for clients out.

    Without `data` it works in a directory of its own, which goes when it stops.
    """

    def __init__(
        self,
        topics: Topics = (),
        config: Config | None = None,
        *,
        data: str | os.PathLike[str] | None = None,
        as_version: str | None = None,
        replay: str | os.PathLike[str] | None = None,
    ) -> None:
        if replay is not None and (topics or config or data or as_version):
            raise ValueError("a broker that replays a recording takes nothing else")
        self._replay = None if replay is None else replay_of(replay)
        """What is played to clients, instead of serving them."""
        self._as_version = as_version
        """The release of Apache Kafka that clients shall take it for."""
        self._topics = wanted_topics(topics)
        self._config = dict(config or {})
        # Now, whatever becomes of the working directory.
        self._data = None if data is None else Path(data).resolve()
        self._prepared: UnclaimedDirectory | None = None
        """A copy of another broker's data, which the first start takes."""
        self._directory: Path | None = None
        self._serving: Broker | None = None
        self._bootstrap, self._port = "", 0
        self.timeline = Timeline(time.monotonic)
        """What the test did, who came, what groups decided and why, which errors were answered."""
        self.clock = MovableClock(self.timeline.note)
        """The time as the broker has it; it can be moved ahead."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._disk = FaultyDisk(self.timeline.note)
        self.faults = Faults(self._disk, self._run_on_broker)
        """What the broker does wrong because a test asked for it."""

    # --- starting and stopping

    async def start(self) -> None:
        """Raises CannotStart, with one line that says why."""
        if self._bootstrap:
            raise CannotStart(ALREADY_RUNNING)
        if self._replay is not None:
            self._bootstrap, self._port = await self._replay.open()
            return
        self._loop = asyncio.get_running_loop()
        self._directory = self._data or self._directory_of_its_own()
        self.timeline.clear()
        try:
            self._serving = await self._serve(self._directory)
            there = self._running.image.topics
            await self._create([it for it in self._topics if it.name not in there])
        except TopicRefused as refusal:
            await self.stop()
            raise CannotStart(str(refusal)) from refusal
        except BaseException:
            await self.stop()
            raise

    def _directory_of_its_own(self) -> Path:
        prepared, self._prepared = self._prepared, None
        return make_directory() if prepared is None else prepared.take()

    async def _serve(self, directory: Path, *, port: int = 0) -> Broker:
        try:
            settings = self._settings_in(directory, port)
            offer = offer_as(self._as_version)
        except (InvalidSetting, UnknownVersion) as problem:
            raise CannotStart(str(problem)) from problem
        environment = embedded_environment(
            clock=self.clock,
            disk=self._disk,
            offer=offer,
            faults=self.faults,
            timeline=self.timeline,
        )
        broker = await Broker.start(settings, environment)
        await broker.groups.wait_until_loaded(LOADING_SECONDS_MAX)
        await broker.transactions.wait_until_loaded(LOADING_SECONDS_MAX)
        self._bootstrap, self._port = broker.bootstrap, broker.bound_port
        return broker

    def _settings_in(self, directory: Path, port: int) -> Settings:
        return wanted_settings(self._config, str(directory), port=port)

    async def stop(self) -> None:
        """Answers what is under way and lets go of everything; a second stop does nothing."""
        serving, self._serving = self._serving, None
        self._bootstrap, self._port = "", 0
        if self._replay is not None:
            await self._replay.close()
        self.faults.clear()
        if serving is not None:
            await serving.stop()
        self.clock.return_to_the_present()
        self.discard_data()

    def discard_data(self) -> None:
        """Of a broker that does not run; a directory of the caller's is left to the caller."""
        if self._directory is not None and self._data is None:
            remove_directory(self._directory)
        if self._prepared is not None:
            self._prepared.remove()
        self._directory = self._prepared = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        try:
            if error is None:
                self.faults.check()
        finally:
            await self.stop()
        if self._replay is not None:
            self._replay.conclude(error)

    async def reset(self, topics: Topics | None = None) -> None:
        """Begins anew without stopping: empty topics, those of the start or others, nothing else.

        Whoever is connected stays so. A client that lives on meets topics with other ids and
        groups that know it no longer. Raises FaultMatchedNothing, and does nothing, if a fault
        has not struck of which nobody was told.
        """
        self.faults.check()
        if topics is not None:
            self._topics = wanted_topics(topics)
        self.faults.clear()  # first: on a disk that fails nothing can be taken away
        missing = await broker_reset.clear(self._running, self._topics)
        self.clock.return_to_the_present()
        await self._create(missing)
        self.timeline.clear()

    async def restart(self) -> None:
        """Stops cleanly, unless it is down, and starts again: the same address, the same data."""
        await self._end(in_peace=True)
        await self._begin_again()

    async def crash(self) -> None:
        """Ends as if the process were killed, and starts again: the same address, the same data.

        What clients were told is there; what was under way is there or not, and nobody hears of it.
        """
        await self._end(in_peace=False)
        await self._begin_again()

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Connections are refused in the block; then it serves again, as after a crash."""
        await self._end(in_peace=False)
        try:
            yield
        finally:
            if self._is_down:  # else it was stopped for good, or started before the end
                await self._begin_again()

    async def _end(self, *, in_peace: bool) -> None:
        if self._is_down:
            return
        serving, self._serving = self._running, None
        self.timeline.note("the test stops the broker" if in_peace else "the test kills the broker")
        if in_peace:
            await serving.stop()
        else:
            await serving.crash()
            self.faults.damage_after_crash(serving)

    async def _begin_again(self) -> None:
        self._serving = await self._serve(self.directory, port=self.port)
        self.timeline.note("the broker serves again")

    # --- going back, and going two ways

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Self]:
        """Whatever happens to topics, groups and records inside is undone at the end.

        The broker is then started anew at the same address: clients come back by themselves, but
        a producer that counts its batches (idempotence) is better made anew.
        """
        kept = self.keep()
        try:
            yield self
        finally:
            if self._directory is None:
                remove_directory(kept)
            else:
                await self.go_back_to(kept)

    def keep(self) -> Path:
        """What `go_back_to` returns to: a directory that shares the bytes of sealed segments."""
        return (copy_beside if self._data is None else copy_within)(self._running)

    async def go_back_to(self, kept: Path) -> None:
        """Takes the directory over, at the same address."""
        await self._end(in_peace=True)
        replace_content(self.directory, kept)
        await self._begin_again()

    def fork(self) -> Self:
        """Another broker, not yet started, that begins with all that this one holds now."""
        other = type(self)(config=beside(self._config), as_version=self._as_version)
        other._topics = self._topics  # noqa: SLF001  # one of our own
        prepared = UnclaimedDirectory(other, copy_beside(self._running))
        other._prepared = prepared  # noqa: SLF001  # likewise
        other.clock.run_beside(self.clock)
        return other

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes all data into an empty directory, from which any broker may be started."""
        save_data(self._running, Path(directory))

    # --- where it is

    @property
    def bootstrap(self) -> str:
        """The address that clients take as `bootstrap_servers`."""
        if not self._bootstrap:
            raise NotRunning(NOT_RUNNING)
        return self._bootstrap

    @property
    def port(self) -> int:
        if not self._bootstrap:
            raise NotRunning(NOT_RUNNING)
        return self._port

    @property
    def directory(self) -> Path:
        """Where its files are, in Kafka's own formats."""
        if self._directory is None:
            raise NotRunning(NOT_RUNNING)
        return self._directory

    # --- topics and records, without a client

    async def create_topics(self, topics: Topics) -> None:
        """Raises TopicRefused, with what a client would have been told."""
        await self._create(wanted_topics(topics))

    async def _create(self, wanted: Sequence[NewTopic]) -> None:
        outcomes = await self._running.controller.create_topics(wanted)
        for topic, outcome in zip(wanted, outcomes, strict=True):
            if isinstance(outcome, Refusal):
                reason = outcome.message or outcome.code.sentence
                raise TopicRefused(f"topic {topic.name}: {reason}")

    def arrow(
        self, topic: str, *, partition: int | None = None, committed_only: bool = True
    ) -> pa.Table:
        """The same as an Arrow table with the bytes of the log (extra `arrow`)."""
        try:
            from pykbroker.testing import arrow  # noqa: PLC0415  # optional, and large
        except ModuleNotFoundError as missing:
            raise missing_extra(missing, "arrow") from None

        return arrow.table(self._running, topic, partition=partition, committed_only=committed_only)

    async def wait_for(
        self, topic: str, *, count: int, timeout_seconds: float = WAIT_SECONDS
    ) -> list[Record]:
        """Returns the records as soon as there are so many."""
        return await inspection.wait_for(
            self._running, topic, count=count, timeout_seconds=timeout_seconds
        )

    # --- what it saw

    def story(self) -> str:
        """The timeline and where every topic and group stands, as text."""
        return "\n".join([str(self.timeline), *offsets_at_the_end(self._running)])

    def _run_on_broker(self, work: Callable[[Broker], Result]) -> Result:
        """Runs a function on the broker's event loop. Callable from any thread."""
        if self._loop is None or self._loop is running_loop():
            return work(self._running)

        async def call_work() -> Result:
            return work(self._running)

        return asyncio.run_coroutine_threadsafe(call_work(), self._loop).result()

    @property
    def is_replaying(self) -> bool:
        return self._replay is not None

    @property
    def replay(self) -> Replay:
        """What was recorded, and how clients keep to it."""
        if self._replay is None:
            raise NotRunning("this broker serves its clients: there is no recording")
        return self._replay

    @property
    def _running(self) -> Broker:
        if self._replay is not None:
            raise NotRunning("this broker replays a recording, and has no records of its own")
        if self._serving is None:
            raise NotRunning(DOWN if self._is_down else NOT_RUNNING)
        return self._serving

    @property
    def _is_down(self) -> bool:
        """Whether it was started, was not stopped, and does not serve."""
        return self._serving is None and self._directory is not None


def replay_of(file: str | os.PathLike[str]) -> Replay:
    from pykbroker.testing.replaying.player import Replay  # noqa: PLC0415  # only who asks pays

    return Replay(file)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Of this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
