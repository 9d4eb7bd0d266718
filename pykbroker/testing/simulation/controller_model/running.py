"""Starts all controllers of a model as servers in the running event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from pykbroker.clock import SystemClock, SystemRandomness
from pykbroker.testing.simulation.controller_model.model import ControllerModel
from pykbroker.testing.simulation.controller_model.server import ControllerServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker_protocol.message import Message

Kind = TypeVar("Kind", bound="Message")


class StartController(Protocol):
    """The value of the fixture `controller_model`."""

    async def __call__(self, **options: Any) -> RunningController: ...


class RunningController:
    """A controller model and its servers on loopback."""

    @classmethod
    async def start(cls, **options: Any) -> Self:
        """Options are those of ControllerModel."""
        model = ControllerModel(
            **{"clock": SystemClock(), "randomness": SystemRandomness(), **options}
        )
        servers = [await ControllerServer.start(model, it) for it in model.controller_ids]
        return cls(model, servers)

    def __init__(self, model: ControllerModel, servers: Sequence[ControllerServer]) -> None:
        self.model = model
        self.servers = list(servers)

    @property
    def address(self) -> str:
        return self.servers[0].address

    @property
    def addresses(self) -> list[str]:
        """Addresses for `controller.quorum.bootstrap.servers`."""
        return [it.address for it in self.servers]

    def requests(self, kind: type[Kind]) -> list[Kind]:
        """Returns the received requests of a type, oldest first."""
        return [it for it in self.model.received if isinstance(it, kind)]

    async def stop(self) -> None:
        self.model.close()
        for server in self.servers:
            await server.stop()
