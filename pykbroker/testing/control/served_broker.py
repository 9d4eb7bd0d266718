"""What `pykbroker serve --control` runs: a broker that can be controlled, and the port for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.testing.control.controlled import ControlledBroker
from pykbroker.testing.control.port import ControlPort
from pykbroker.testing.control.routes import Desk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.settings import Settings


class ServedBroker(ControlledBroker):
    """All that a test's broker can, asked for over HTTP."""

    def __init__(
        self,
        settings: Settings,
        topics: Iterable[tuple[str, int, int]],
        address: tuple[str, int],
        *,
        as_version: str | None = None,
    ) -> None:
        super().__init__(settings, topics, as_version=as_version)
        self._control = ControlPort(Desk(self).answer, *address)

    async def start(self) -> None:
        await super().start()
        try:
            await self._control.open()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await self._control.close()
        await super().stop()

    @property
    def control_address(self) -> str:
        return self._control.address

    # --- as the command wants to know it

    @property
    def bound_port(self) -> int:
        return self.port

    @property
    def node_id(self) -> int:
        return self.serving.node_id

    @property
    def cluster_id(self) -> str:
        return self.serving.cluster_id
