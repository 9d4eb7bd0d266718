"""A KRaft-like controller for tests: the requests of a controller listener, without Java.

In a test that starts a broker or a part of one, use the fixture `controller_model`:

    async def test_…(controller_model: StartController) -> None:
        controller = await controller_model()             # an asyncio server on a free port
        settings = {"controller.quorum.bootstrap.servers": controller.address, …}
        …
        await until(lambda: not controller.model.image.brokers[1].fenced)

`controller.model` is a `ControllerModel`. `image` is the metadata up to the log end, and
`model.create_topics([NewTopic(…)])` and the other commands of `ControllerAccess` change it. `fence`
fences a broker at once, `elect` begins a new controller epoch, `take_snapshot` replaces the log.
`commit_delay_seconds` delays commits (None: until `commit()`). `controller.requests(SomeRequest)`
returns the received requests of a type.

`controller_model(controller_ids=(1, 2))` starts two servers; `controller.addresses` has both.
Other options are those of `ControllerModel`: `clock`, `cluster_id`, `features`, `min_in_sync`,
`session_timeout_seconds`.
"""

from pykbroker.testing.simulation.controller_model.model import ControllerModel
from pykbroker.testing.simulation.controller_model.running import RunningController, StartController
from pykbroker.testing.simulation.controller_model.server import ControllerServer

__all__ = ["ControllerModel", "ControllerServer", "RunningController", "StartController"]
