"""A broker for tests that takes the settings of the command line, with begin and end of outages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller_access import NewTopic
from pykbroker.settings import load_settings
from pykbroker.testing.async_broker import AsyncBroker, NotRunning
from pykbroker.testing.broker_options import with_port

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pykbroker.broker import Broker
    from pykbroker.settings import Settings


OUTAGE = "the broker is in an outage: DELETE /outage or `control outage end` ends it"


class ControllableBroker(AsyncBroker):
    """A broker with faults and a movable clock. Its data stays in the directory of the settings."""

    def __init__(
        self,
        settings: Settings,
        topics: Iterable[tuple[str, int, int]],
        *,
        as_version: str | None = None,
    ) -> None:
        super().__init__(data=settings.log_dirs[0], as_version=as_version)
        self._settings = settings
        self._topics = [
            NewTopic(
                name=name,
                partitions=settings.num_partitions if partitions < 0 else partitions,
                replication_factor=1 if replicas < 0 else replicas,
            )
            for name, partitions, replicas in topics
        ]

    def _settings_in(self, directory: Path, port: int) -> Settings:
        del directory  # part of the settings
        if not port:
            return self._settings
        listeners = with_port(",".join(self._settings.listeners), port)
        return load_settings(self._settings.layers.static, {"listeners": listeners})

    async def begin_outage(self) -> None:
        """Kills the broker, so that connections are refused."""
        if not self.is_up:
            raise NotRunning("an outage is already in progress")
        await self._end(cleanly=False)

    async def end_outage(self) -> None:
        """Starts the broker again, as after a crash."""
        if self.is_up:
            raise NotRunning("no outage is in progress")
        await self._start_again()

    @property
    def is_up(self) -> bool:
        return self._serving is not None

    @property
    def _running(self) -> Broker:
        if not self.is_up:
            raise NotRunning(OUTAGE)
        return super()._running

    @property
    def serving(self) -> Broker:
        """The running broker. Raises NotRunning in an outage."""
        return self._running
