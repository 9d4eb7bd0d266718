"""A broker in a thread of its own, for programs and tests that have no event loop."""

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
from pykbroker.testing.rows import many
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
    """A whole Kafka broker: topics and properties in, an address for clients out.

    Every method may be called from any thread, and returns when the thing is done.
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
        """Raises CannotStart, with one line that says why."""
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
        """Answers what is under way and lets go of everything; a second stop does nothing.

        Nor does one in a copy of the process: what `os.fork` has copied is not the broker.
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
        """Begins anew without stopping: empty topics, those of the start or others, nothing else.

        Whoever is connected stays so. A client that lives on meets topics with other ids and
        groups that know it no longer. Raises FaultMatchedNothing, and does nothing, if a fault
        has not struck of which nobody was told.
        """
        self._loop.run(self._broker.reset(topics))

    def restart(self) -> None:
        """Stops cleanly, unless it is down, and starts again: the same address, the same data."""
        self._loop.run(self._broker.restart())

    def crash(self) -> None:
        """Ends as if the process were killed, and starts again: the same address, the same data.

        What clients were told is there; what was under way is there or not, and nobody hears of it.
        """
        self._loop.run(self._broker.crash())

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Connections are refused in the block; then it serves again, as after a crash."""
        outage = self._broker.outage()
        self._loop.run(outage.__aenter__())
        try:
            yield
        finally:
            self._loop.run(outage.__aexit__(None, None, None))

    # --- going back, and going two ways

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """Whatever happens to topics, groups and records inside is undone at the end.

        The broker is then started anew at the same address: clients come back by themselves, but
        a producer that counts its batches (idempotence) is better made anew.
        """
        kept = self._loop.call(self._broker.keep)
        try:
            yield self
        finally:
            if self._running_loop is None:
                remove_directory(kept)
            else:
                self._loop.run(self._broker.go_back_to(kept))

    def fork(self) -> Broker:
        """Another broker, not yet started, that begins with all that this one holds now."""
        other = Broker(loop_factory=self._loop_factory)
        other._broker = self._loop.call(self._broker.fork)  # one of our own
        return other

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes all data into an empty directory, from which any broker may be started."""
        self._loop.call(lambda: self._broker.save(directory))

    # --- where it is

    @property
    def bootstrap(self) -> str:
        """The address that clients take as `bootstrap_servers`."""
        return self._broker.bootstrap

    @property
    def port(self) -> int:
        return self._broker.port

    @property
    def directory(self) -> Path:
        """Where its files are, in Kafka's own formats."""
        return self._broker.directory

    # --- topics and records, without a client

    def create_topics(self, topics: Topics) -> None:
        """Raises TopicRefused, with what a client would have been told."""
        self._loop.run(self._broker.create_topics(topics))

    def produce(
        self,
        topic: str,
        rows: Iterable[Value | Row],
        *,
        key: Key | None = None,
        partition: int | None = None,
    ) -> int:
        """Writes rows as a producer would have; returns how many there were."""
        asked = many(rows)  # here, so that what makes them runs in the caller's thread
        return self._loop.call(
            lambda: self._broker.produce(topic, asked, key=key, partition=partition)
        )

    def records(
        self, topic: str, *, partition: int | None = None, committed_only: bool = True
    ) -> list[Record]:
        """All a topic holds, partition by partition, as a consumer would get it."""
        return self._loop.call(
            lambda: self._broker.records(topic, partition=partition, committed_only=committed_only)
        )

    def arrow(
        self, topic: str, *, partition: int | None = None, committed_only: bool = True
    ) -> pa.Table:
        """The same as an Arrow table with the bytes of the log (extra `arrow`)."""
        return self._loop.call(
            lambda: self._broker.arrow(topic, partition=partition, committed_only=committed_only)
        )

    def wait_for(
        self, topic: str, *, count: int, timeout_seconds: float = WAIT_SECONDS
    ) -> list[Record]:
        """Returns the records as soon as there are so many; raises TooFewRecords."""
        return self._loop.run(
            self._broker.wait_for(topic, count=count, timeout_seconds=timeout_seconds)
        )

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """What a group has committed, by topic and partition."""
        return self._loop.call(lambda: self._broker.offsets(group_id))

    # --- time, and faults

    @property
    def clock(self) -> BlockingClock:
        """The time as the broker has it; it can be moved ahead."""
        return BlockingClock(self._broker.clock, self._loop)

    @property
    def faults(self) -> Faults:
        """What the broker does wrong because a test asked for it."""
        return self._broker.faults

    # --- what it saw

    @property
    def replay(self) -> Replay:
        """What was recorded, and how clients keep to it."""
        return self._broker.replay

    @property
    def timeline(self) -> Timeline:
        """What the test did, who came, what groups decided and why, which errors were answered."""
        return self._broker.timeline

    def story(self) -> str:
        """The timeline and where every topic and group stands, as text."""
        return self._loop.call(self._broker.story)

    @property
    def _loop(self) -> LoopThread:
        if self._running_loop is None:
            raise NotRunning(NOT_RUNNING)
        if not self._running_loop.is_here:
            raise NotRunning("the broker runs in the process that this one is a copy of")
        return self._running_loop
