"""`Broker`: a broker for tests that runs in its own thread, for callers without an event loop."""

from __future__ import annotations

import atexit
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from pykbroker.broker import CannotStart
from pykbroker.event_loop import new_event_loop
from pykbroker.testing.async_broker import (
    ALREADY_RUNNING,
    NOT_RUNNING,
    WAIT_SECONDS,
    AsyncBroker,
    NotRunning,
)
from pykbroker.testing.loop_thread import LoopThread
from pykbroker.testing.movable_clock import BlockingClock
from pykbroker.testing.rows import row_list
from pykbroker.testing.temporary_directory import remove_directory

if TYPE_CHECKING:
    import asyncio
    import os
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from pykbroker.testing.broker_options import Config, Topics
    from pykbroker.testing.faults import Faults
    from pykbroker.testing.replaying.player import Replay
    from pykbroker.testing.rows import Key, Record, Row, Value
    from pykbroker.testing.timeline import Timeline


class Broker:
    """A complete Kafka broker for tests, in its own thread.

    All methods block until they are done and can be called from any thread.
    """

    def __init__(
        self,
        topics: Topics = (),
        config: Config | None = None,
        *,
        data: str | os.PathLike[str] | None = None,
        as_version: str | None = None,
        replay: str | os.PathLike[str] | None = None,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
    ) -> None:
        self._broker = AsyncBroker(topics, config, data=data, as_version=as_version, replay=replay)
        self._loop_factory = loop_factory
        self._running_loop: LoopThread | None = None

    # --- starting and stopping

    def start(self) -> None:
        """Starts the broker. Raises CannotStart with the reason in one line."""
        if self._running_loop is not None:
            raise CannotStart(ALREADY_RUNNING)
        loop = LoopThread(self._loop_factory, "pykbroker")
        loop.start()
        self._running_loop = loop
        atexit.register(self.stop)
        try:
            self._loop.run(self._broker.start())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Sends pending responses, stops the broker and frees its resources. Idempotent.

        Does nothing in a child process of `os.fork`: the broker runs in the parent.
        """
        if self._running_loop is not None and not self._running_loop.is_here:
            return
        loop, self._running_loop = self._running_loop, None
        if loop is None:
            self._broker.discard_data()
            return
        atexit.unregister(self.stop)
        try:
            loop.run(self._broker.stop())
        finally:
            loop.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        try:
            if error is None:
                self.faults.check()
        finally:
            self.stop()
        if self._broker.is_replaying:
            self.replay.conclude(error)

    def reset(self, topics: Topics | None = None) -> None:
        """Returns to the state after the start without a restart: empty topics, no groups.

        'topics' replaces the topics of the start. Connections stay open. Used topics get new ids,
        and groups lose their members. Raises FaultMatchedNothing and changes nothing if a fault
        was never applied and has not been reported yet.
        """
        self._loop.run(self._broker.reset(topics))

    def restart(self) -> None:
        """Restarts the broker with the same address and data. Stops it cleanly if it is running."""
        self._loop.run(self._broker.restart())

    def crash(self) -> None:
        """Ends like a killed process and starts again with the same address and data.

        Acknowledged records survive. Requests in progress get no response, and their records may
        or may not be in the log.
        """
        self._loop.run(self._broker.crash())

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Kills the broker, so that connections are refused, and restarts it after the block."""
        outage = self._broker.outage()
        self._loop.run(outage.__aenter__())
        try:
            yield
        finally:
            self._loop.run(outage.__aexit__(None, None, None))

    # --- snapshots and forks

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """Undoes all changes to topics, groups and records at the end of the block.

        The broker is restarted at the same address. Clients reconnect. Recreate an idempotent
        producer: its sequence numbers are ahead of the restored log.
        """
        copy = self._loop.call(self._broker.copy_for_snapshot)
        try:
            yield self
        finally:
            if self._running_loop is None:
                remove_directory(copy)
            else:
                self._loop.run(self._broker.restore(copy))

    def fork(self) -> Broker:
        """Returns a second broker with a copy of the current data. It is not started."""
        other = Broker(loop_factory=self._loop_factory)
        other._broker = self._loop.call(self._broker.fork)
        return other

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Copies the data into an empty directory that can be given to a broker as `data`."""
        self._loop.call(lambda: self._broker.save(directory))

    # --- addresses

    @property
    def bootstrap(self) -> str:
        """The address for the clients' `bootstrap.servers`."""
        return self._broker.bootstrap

    @property
    def port(self) -> int:
        return self._broker.port

    @property
    def directory(self) -> Path:
        """The log directory."""
        return self._broker.directory

    # --- topics and records, without a client

    def create_topics(self, topics: Topics) -> None:
        """Creates topics. Raises TopicRefused for the first that the broker rejects."""
        self._loop.run(self._broker.create_topics(topics))

    def produce(
        self,
        topic: str,
        rows: Iterable[Value | Row],
        *,
        key: Key | None = None,
        partition: int | None = None,
    ) -> int:
        """Appends rows like a producer and returns their number. Raises NotWritten if rejected."""
        listed = row_list(rows)  # a generator of the caller runs in the caller's thread
        return self._loop.call(
            lambda: self._broker.produce(topic, listed, key=key, partition=partition)
        )

    def records(
        self, topic: str, *, partition: int | None = None, committed_only: bool = True
    ) -> list[Record]:
        """All records that a consumer can read, by partition and offset."""
        return self._loop.call(
            lambda: self._broker.records(topic, partition=partition, committed_only=committed_only)
        )

    def arrow(
        self, topic: str, *, partition: int | None = None, committed_only: bool = True
    ) -> pa.Table:
        """The records of a topic as an Arrow table over the mapped log (extra `arrow`)."""
        return self._loop.call(
            lambda: self._broker.arrow(topic, partition=partition, committed_only=committed_only)
        )

    def wait_for(
        self, topic: str, *, count: int, timeout_seconds: float = WAIT_SECONDS
    ) -> list[Record]:
        """Returns all records once there are at least 'count'; raises TooFewRecords on timeout."""
        return self._loop.run(
            self._broker.wait_for(topic, count=count, timeout_seconds=timeout_seconds)
        )

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """The committed offsets of a group, by topic and partition."""
        return self._loop.call(lambda: self._broker.offsets(group_id))

    # --- time, and faults

    @property
    def clock(self) -> BlockingClock:
        """The broker's clock, which a test can advance, freeze and skew."""
        return BlockingClock(self._broker.clock, self._loop)

    @property
    def faults(self) -> Faults:
        """The faults that the test has set."""
        return self._broker.faults

    # --- timeline and replay

    @property
    def replay(self) -> Replay:
        """The recording and the differences of the clients from it."""
        return self._broker.replay

    @property
    def timeline(self) -> Timeline:
        """Actions of the test, connecting clients, decisions of coordinators, error responses."""
        return self._broker.timeline

    def story(self) -> str:
        """The timeline, the offsets of every topic and the progress of every group, as text."""
        return self._loop.call(self._broker.story)

    @property
    def _loop(self) -> LoopThread:
        if self._running_loop is None:
            raise NotRunning(NOT_RUNNING)
        if not self._running_loop.is_here:
            raise NotRunning("the broker runs in the parent of this forked process")
        return self._running_loop
