"""A simulated broker that a test can stop, kill and restart."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from contextvars import Context
from typing import TYPE_CHECKING

from pykbroker.broker import Broker, CannotStart
from pykbroker.testing.broker_options import embedded_settings
from pykbroker.testing.direct_access import DirectAccess
from pykbroker.testing.simulation.host_processes import kill_all, start_on
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.controller_access import NewTopic
    from pykbroker.environment import Environment
    from pykbroker.partitions.partition import Partition
    from pykbroker.testing.broker_options import Config
    from pykbroker.testing.simulation.disk import CrashingDisk
    from pykbroker.testing.simulation.network import Network
    from pykbroker.testing.simulation.trace import Trace
    from pykbroker.testing.simulation.virtual_loop import VirtualLoop

logger = logging.getLogger(__name__)

PORT = 9092

RESTART_SECONDS = 2.0
"""Time until a supervisor starts a failed broker again."""


class SimulatedNode(DirectAccess):
    """One broker on its own host, through all its restarts."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        environment: Environment,
        *,
        network: Network,
        disk: CrashingDisk,
        trace: Trace,
        topics: Sequence[NewTopic],
        config: Config,
    ) -> None:
        self.name = name
        self.bootstrap = f"{name}:{PORT}"
        self._loop = loop
        self.disk = disk
        self._network = network
        self._trace = trace
        self._environment = environment
        self._topics = topics
        self._config = {"listeners": f"PLAINTEXT://{self.bootstrap}", **config}
        self._serving: Broker | None = None
        self._changing = asyncio.Lock()
        self.unclean_stops = 0
        """Ends of the process without a clean shutdown."""

    # --- starting and stopping

    @property
    def is_running(self) -> bool:
        return self._serving is not None

    async def start(self) -> None:
        """Starts the broker. Raises CannotStart with the reason in one line."""
        async with self._changing:
            assert self._serving is None, f"{self.name} is running"
            await self._start_process()

    async def start_if_stopped(self) -> None:
        """Like `start`; does nothing if a supervisor has started the broker."""
        async with self._changing:
            if self._serving is None:
                await self._start_process()

    async def _start_process(self) -> None:
        self._network.bring_up(self.name)
        await start_on(self._loop, self.name, self._start())
        self._trace.note(f"{self.name} is up")

    async def _start(self) -> None:
        settings = embedded_settings(self._config, str(self.disk.root), port=PORT)
        broker = await Broker.start(settings, self._environment)
        self._serving = broker
        self._loop.create_task(self._watch(broker), context=Context())
        if not self._topics:
            return
        to_create = [it for it in self._topics if it.name not in broker.image.topics]
        for topic, outcome in zip(
            to_create, await broker.controller.create_topics(to_create), strict=True
        ):
            if isinstance(outcome, Refusal) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise AssertionError(f"topic {topic.name}: {outcome.message}")

    async def _watch(self, broker: Broker) -> None:
        """Ends and restarts a broker that has failed, like the command and its supervisor."""
        reason = await broker.until_failed()
        if broker is not self._serving:
            return
        self._trace.note(f"{self.name} ends: {reason}")
        self.unclean_stops += 1
        await self.stop()
        while not self.is_running:
            await asyncio.sleep(RESTART_SECONDS)
            with contextlib.suppress(CannotStart):
                await self.start_if_stopped()

    async def stop(self) -> None:
        """Stops the broker cleanly: sends pending responses and flushes logs."""
        async with self._changing:
            if self._serving is not None:
                serving, self._serving = self._serving, None
                await start_on(self._loop, self.name, serving.stop())
                self._trace.note(f"{self.name} is stopped")

    async def kill(self) -> None:
        """Ends the process as by SIGKILL. Written data stays in the page cache."""
        async with self._changing:
            if self._serving is not None:
                self._trace.note(f"{self.name} is killed")
                self.unclean_stops += 1
                self._network.end_process(self.name)
                await self._abandon()

    async def lose_power(self) -> None:
        """Turns the machine off: peers get no reset, and unflushed data can be lost."""
        async with self._changing:
            if self._serving is not None:
                self._trace.note(f"{self.name} loses power")
                self.unclean_stops += 1
                self._network.take_down(self.name)
                self._network.end_process(self.name)
                await self._abandon()
                self._trace.note(f"{self.name}: {self.disk.cut_power()}")

    def wipe(self) -> None:
        """Replaces the disk of a stopped broker by an empty one."""
        assert self._serving is None, f"{self.name} is running"
        self._trace.note(f"{self.name} has an empty disk")
        self.disk.wipe()

    async def _abandon(self) -> None:
        """Ends all tasks of the host. Their writes fail and have no effect."""
        assert self._serving is not None
        serving, self._serving = self._serving, None
        self.disk.refuse(errno.EIO)
        try:
            with contextlib.suppress(OSError):
                await start_on(self._loop, self.name, serving.crash())
            await kill_all(self._loop, self.name)
        finally:
            self.disk.refuse(None)

    def partition(self, topic: str, index: int) -> Partition | None:
        """Returns the replica of a running broker."""
        return None if self._serving is None else self._serving.partitions.get(topic, index)

    def high_watermark(self, topic: str, index: int) -> int:
        """Returns the high watermark of a replica, -1 if there is none."""
        partition = self.partition(topic, index)
        return -1 if partition is None else partition.high_watermark

    def log_start(self, topic: str, index: int) -> int:
        partition = self.partition(topic, index)
        return -1 if partition is None else partition.log.log_start_offset

    def log_end(self, topic: str, index: int) -> int:
        partition = self.partition(topic, index)
        return -1 if partition is None else partition.log.log_end_offset

    @property
    def _running(self) -> Broker:
        assert self._serving is not None, f"{self.name} is not running"
        return self._serving
