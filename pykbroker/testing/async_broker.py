"""`AsyncBroker`: a broker for tests that runs in the caller's event loop."""

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
from pykbroker.testing.broker_options import (
    Topics,
    embedded_settings,
    parse_topics,
    with_free_ports,
)
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
from pykbroker.testing.timeline import Timeline, offset_summary
from pykbroker_protocol.errors import Refusal

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Sequence

    import pyarrow as pa

    from pykbroker.controller_access import NewTopic
    from pykbroker.settings import Settings
    from pykbroker.testing.broker_options import Config
    from pykbroker.testing.replaying.player import Replay
    from pykbroker.testing.rows import Record

Result = TypeVar("Result")

WAIT_SECONDS = 10.0
LOADING_SECONDS_MAX = 5.0
"""Time that a start waits for coordinators to load; a disk with a fault may need longer."""
ALREADY_RUNNING = "the broker is already running"
NOT_RUNNING = "the broker is not running: use it in a with statement or call start()"
DOWN = "the broker is down because of an outage or a failed start; restart() starts it"


class NotRunning(RuntimeError):
    """Raised if the broker is not started or already stopped."""


class TopicRefused(Exception):
    """Raised if the broker rejects the creation of a topic; has the name and the reason."""


class AsyncBroker(DirectAccess):
    """A complete Kafka broker for tests, in the caller's event loop.

    Without `data` the broker uses a temporary directory and deletes it when it stops.
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
            raise ValueError("replay cannot be combined with other arguments")
        self._replay = None if replay is None else replay_of(replay)
        """The recording that answers clients. There is no broker then."""
        self._as_version = as_version
        """The release whose APIs and versions the broker advertises."""
        self._topics = parse_topics(topics)
        self._config = dict(config or {})
        # Resolved here: a test may change the working directory before it starts the broker.
        self._data = None if data is None else Path(data).resolve()
        self._prepared: UnclaimedDirectory | None = None
        """A copy of a forked broker's data, used by the first start."""
        self._directory: Path | None = None
        self._serving: Broker | None = None
        self._bootstrap, self._port = "", 0
        self.timeline = Timeline(time.monotonic)
        """Actions of the test, connecting clients, decisions of coordinators, error responses."""
        self.clock = MovableClock(self.timeline.note)
        """The broker's clock, which a test can advance, freeze and skew."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._disk = FaultyDisk(self.timeline.note)
        self.faults = Faults(self._disk, self._run_on_broker)
        """The faults that the test has set."""

    # --- starting and stopping

    async def start(self) -> None:
        """Starts the broker. Raises CannotStart with the reason in one line."""
        if self._bootstrap:
            raise CannotStart(ALREADY_RUNNING)
        if self._replay is not None:
            self._bootstrap, self._port = await self._replay.open()
            return
        self._loop = asyncio.get_running_loop()
        self._directory = self._data or self._temporary_directory()
        self.timeline.clear()
        try:
            self._serving = await self._serve(self._directory)
            existing = self._running.image.topics
            await self._create([it for it in self._topics if it.name not in existing])
        except TopicRefused as refusal:
            await self.stop()
            raise CannotStart(str(refusal)) from refusal
        except BaseException:
            await self.stop()
            raise

    def _temporary_directory(self) -> Path:
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
        return embedded_settings(self._config, str(directory), port=port)

    async def stop(self) -> None:
        """Sends pending responses, stops the broker and frees its resources. Idempotent."""
        serving, self._serving = self._serving, None
        self._bootstrap, self._port = "", 0
        if self._replay is not None:
            await self._replay.close()
        self.faults.clear()
        if serving is not None:
            await serving.stop()
        self.clock.reset()
        self.discard_data()

    def discard_data(self) -> None:
        """Deletes the temporary directory of a stopped broker. A `data` directory stays."""
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
        """Returns to the state after the start without a restart: empty topics, no groups.

        'topics' replaces the topics of the start. Connections stay open. Used topics get new ids,
        and groups lose their members. Raises FaultMatchedNothing and changes nothing if a fault
        was never applied and has not been reported yet.
        """
        self.faults.check()
        if topics is not None:
            self._topics = parse_topics(topics)
        self.faults.clear()  # first: nothing can be deleted on a failing disk
        to_create = await broker_reset.clear(self._running, self._topics)
        self.clock.reset()
        await self._create(to_create)
        self.timeline.clear()

    async def restart(self) -> None:
        """Restarts the broker with the same address and data. Stops it cleanly if it is running."""
        await self._end(cleanly=True)
        await self._start_again()

    async def crash(self) -> None:
        """Ends like a killed process and starts again with the same address and data.

        Acknowledged records survive. Requests in progress get no response, and their records may
        or may not be in the log.
        """
        await self._end(cleanly=False)
        await self._start_again()

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Kills the broker, so that connections are refused, and restarts it after the block."""
        await self._end(cleanly=False)
        try:
            yield
        finally:
            if self._is_down:  # else the test has stopped or restarted it in the block
                await self._start_again()

    async def _end(self, *, cleanly: bool) -> None:
        if self._is_down:
            return
        serving, self._serving = self._running, None
        self.timeline.note("test: broker stopped" if cleanly else "test: broker killed")
        if cleanly:
            await serving.stop()
        else:
            await serving.crash()
            self.faults.damage_after_crash(serving)

    async def _start_again(self) -> None:
        self._serving = await self._serve(self.directory, port=self.port)
        self.timeline.note("test: broker started again")

    # --- snapshots and forks

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Self]:
        """Undoes all changes to topics, groups and records at the end of the block.

        The broker is restarted at the same address. Clients reconnect. Recreate an idempotent
        producer: its sequence numbers are ahead of the restored log.
        """
        copy = self.copy_for_snapshot()
        try:
            yield self
        finally:
            if self._directory is None:
                remove_directory(copy)
            else:
                await self.restore(copy)

    def copy_for_snapshot(self) -> Path:
        """Copies the data for `restore`. The copy shares the bytes of sealed segments."""
        return (copy_beside if self._data is None else copy_within)(self._running)

    async def restore(self, copy: Path) -> None:
        """Restarts the broker at the same address with the data of a copy."""
        await self._end(cleanly=True)
        replace_content(self.directory, copy)
        await self._start_again()

    def fork(self) -> Self:
        """Returns a second broker with a copy of the current data. It is not started."""
        other = type(self)(config=with_free_ports(self._config), as_version=self._as_version)
        other._topics = self._topics  # noqa: SLF001  # same class
        prepared = UnclaimedDirectory(other, copy_beside(self._running))
        other._prepared = prepared  # noqa: SLF001  # as above
        other.clock.copy_from(self.clock)
        return other

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Copies the data into an empty directory that can be given to a broker as `data`."""
        save_data(self._running, Path(directory))

    # --- addresses

    @property
    def bootstrap(self) -> str:
        """The address for the clients' `bootstrap.servers`."""
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
        """The log directory."""
        if self._directory is None:
            raise NotRunning(NOT_RUNNING)
        return self._directory

    # --- topics and records, without a client

    async def create_topics(self, topics: Topics) -> None:
        """Creates topics. Raises TopicRefused for the first that the broker rejects."""
        await self._create(parse_topics(topics))

    async def _create(self, topics: Sequence[NewTopic]) -> None:
        outcomes = await self._running.controller.create_topics(topics)
        for topic, outcome in zip(topics, outcomes, strict=True):
            if isinstance(outcome, Refusal):
                reason = outcome.message or outcome.code.sentence
                raise TopicRefused(f"topic {topic.name}: {reason}")

    def arrow(
        self, topic: str, *, partition: int | None = None, committed_only: bool = True
    ) -> pa.Table:
        """The records of a topic as an Arrow table over the mapped log (extra `arrow`)."""
        try:
            from pykbroker.testing import arrow  # noqa: PLC0415  # optional, and large
        except ModuleNotFoundError as missing:
            raise missing_extra(missing, "arrow") from None

        return arrow.table(self._running, topic, partition=partition, committed_only=committed_only)

    async def wait_for(
        self, topic: str, *, count: int, timeout_seconds: float = WAIT_SECONDS
    ) -> list[Record]:
        """Returns all records once there are at least 'count'; raises TooFewRecords on timeout."""
        return await inspection.wait_for(
            self._running, topic, count=count, timeout_seconds=timeout_seconds
        )

    # --- timeline and replay

    def story(self) -> str:
        """The timeline, the offsets of every topic and the progress of every group, as text."""
        return "\n".join([str(self.timeline), *offset_summary(self._running)])

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
        """The recording and the differences of the clients from it."""
        if self._replay is None:
            raise NotRunning("the broker was not started with replay=…")
        return self._replay

    @property
    def _running(self) -> Broker:
        if self._replay is not None:
            raise NotRunning("the broker replays a recording and stores no records")
        if self._serving is None:
            raise NotRunning(DOWN if self._is_down else NOT_RUNNING)
        return self._serving

    @property
    def _is_down(self) -> bool:
        """True during an outage or after a failed start, before `stop`."""
        return self._serving is None and self._directory is not None


def replay_of(file: str | os.PathLike[str]) -> Replay:
    from pykbroker.testing.replaying.player import Replay  # noqa: PLC0415  # only for replays

    return Replay(file)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
