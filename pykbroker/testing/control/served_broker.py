"""The broker of `pykbroker serve --control`: a controllable broker with a control port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.testing.control.controllable_broker import ControllableBroker
from pykbroker.testing.control.port import ControlPort
from pykbroker.testing.control.routes import ControlRequests

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.settings import Settings


class ServedBroker(ControllableBroker):
    """Opens the control port with the broker and closes it with the broker."""

    def __init__(
        self,
        settings: Settings,
        topics: Iterable[tuple[str, int, int]],
        address: tuple[str, int],
        *,
        as_version: str | None = None,
    ) -> None:
        super().__init__(settings, topics, as_version=as_version)
        self._control = ControlPort(ControlRequests(self).answer, *address)

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

    # --- for the command

    @property
    def control_address(self) -> str:
        return self._control.address

    @property
    def bound_port(self) -> int:
        return self.port

    @property
    def node_id(self) -> int:
        return self.serving.node_id

    @property
    def cluster_id(self) -> str:
        return self.serving.cluster_id
