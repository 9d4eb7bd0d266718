"""The control plane of a single node: the controller of this process, a quorum of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.control_plane import CannotJoin
from pykbroker.controller.controller import CannotCommit, Controller
from pykbroker.metadata_log.metadata_log import CannotLoadMetadata
from pykbroker.wiring import cluster_id_in, text_of
from pykbroker_storage.directory_files import UNKNOWN_BROKER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pykbroker.apis.offer import Offer
    from pykbroker.controller.controller import Deliver
    from pykbroker.controller_access import RequestForwarding
    from pykbroker.environment import Environment
    from pykbroker.metadata.image import ClusterImage
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker.settings import CurrentSettings, Settings
    from pykbroker.settings import Listener as Address
    from pykbroker_storage.log_directory import LogDirectory


class OwnController:
    """Opens the controller and registers the broker with it (`control_plane.ControlPlane`)."""

    controller: Controller
    forwarding: RequestForwarding | None = None
    has_failed_directory = False

    def __init__(
        self, settings: Settings, environment: Environment, cluster_id: str | None = None
    ) -> None:
        """`cluster_id` is that of a new log directory; None generates one."""
        self._settings = settings
        self._cluster_id = cluster_id
        self._environment = environment
        self.broker_epoch = UNKNOWN_BROKER_EPOCH

    def remote_transactions(self, current_image: Callable[[], ClusterImage]) -> None:
        """There are no other brokers."""

    def offer(self, offer: Offer) -> Offer:
        return offer

    async def cluster_id(self, directory: str) -> str:
        """Returns the stated id, the id in `meta.properties`, or a new one."""
        return (
            self._cluster_id
            or cluster_id_in(directory)
            or text_of(self._environment.randomness.uuid_bytes())
        )

    async def join(self, directory: LogDirectory, addresses: Sequence[Address]) -> None:
        try:
            self.controller = await Controller.open(
                directory,
                settings=self._settings,
                clock=self._environment.clock,
                randomness=self._environment.randomness,
                durable=self._environment.filesystem.is_durable,
            )
            self.broker_epoch = await self.controller.join(
                listeners={it.name: (it.host, it.port) for it in addresses},
                rack=self._settings.broker_rack,
            )
        except (CannotLoadMetadata, CannotCommit) as error:
            raise CannotJoin(str(error)) from error

    def subscribe(self, deliver: Deliver) -> ClusterImage:
        return self.controller.subscribe(deliver)

    def attach(
        self,
        partitions: Partitions,
        current_settings: CurrentSettings,
        current_image: Callable[[], ClusterImage],
    ) -> None:
        """Partitions have no other replicas."""

    async def open_partitions(self, partitions: Partitions, image: ClusterImage) -> None:
        partitions.apply_metadata(image, image.topics.values())

    async def serve(self) -> None:
        """The broker was unfenced by `join`: there are no clients before it accepts connections."""

    async def leave(self) -> None:
        """There is no other broker that could lead."""

    async def detach(self) -> None:
        """Without requests of clients there are no deltas."""

    async def close(self) -> None:
        if hasattr(self, "controller"):
            await self.controller.close()
