"""Interface of a broker to its cluster: through its own controller, or through other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pykbroker.apis.offer import Offer
    from pykbroker.controller_access import ControllerAccess, RequestForwarding
    from pykbroker.coordinators.remote_transactions import RemoteTransactions
    from pykbroker.metadata.image import ClusterImage, ImageDelta
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker.settings import CurrentSettings
    from pykbroker.settings import Listener as Address
    from pykbroker_storage.log_directory import LogDirectory


class CannotJoin(Exception):
    """The broker cannot become a member of its cluster; the message is one line."""


class ControlPlane(Protocol):
    """Membership of this broker in a cluster, in the order of the methods."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of the registration; that of the last clean shutdown before there is one."""
        ...

    @property
    def has_failed_directory(self) -> bool:
        """True after an error of the disk that can have lost records of this process."""
        ...

    @property
    def controller(self) -> ControllerAccess:
        """Commands to the active controller. Defined after `join`."""
        ...

    def remote_transactions(
        self, current_image: Callable[[], ClusterImage]
    ) -> RemoteTransactions | None:
        """Returns the requests of transactions to other brokers; None if there are none."""
        ...

    def offer(self, offer: Offer) -> Offer:
        """Returns the offer with the features that the registration claims."""
        ...

    async def cluster_id(self, directory: str) -> str:
        """Returns the id of the cluster that the log directory belongs to, or will belong to.

        Raises CannotJoin.
        """
        ...

    async def join(self, directory: LogDirectory, addresses: Sequence[Address]) -> None:
        """Registers the broker. Returns when the metadata contains the registration.

        Until then the logs in the directory are not changed: older metadata may lack a partition.
        Raises CannotJoin.
        """
        ...

    def subscribe(self, deliver: Callable[[ImageDelta], Awaitable[None] | None]) -> ClusterImage:
        """Returns a copy of the committed image, and delivers the delta of each later commit."""
        ...

    @property
    def forwarding(self) -> RequestForwarding | None:
        """Forwards administrative requests; None if this process has the active controller."""
        ...

    def attach(
        self,
        partitions: Partitions,
        current_settings: CurrentSettings,
        current_image: Callable[[], ClusterImage],
    ) -> None:
        """Connects the partitions with their other replicas, before they are opened."""
        ...

    async def open_partitions(self, partitions: Partitions, image: ClusterImage) -> None:
        """Opens the logs of all partitions of this broker."""
        ...

    async def serve(self) -> None:
        """Unfences the broker, which accepts connections. Returns when it is unfenced.

        Raises CannotJoin.
        """
        ...

    async def leave(self) -> None:
        """Moves the leaderships of this broker to others, if possible within a time limit."""
        ...

    async def detach(self) -> None:
        """Ends replication and the delivery of metadata. Does nothing if they have ended."""
        ...

    async def close(self) -> None: ...
