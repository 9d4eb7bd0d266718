"""The values of this broker and its cluster that replication reads at each use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.address import Address
from pykbroker.metadata.features import METADATA_VERSION
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.metadata.image import ClusterImage
    from pykbroker.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Reads the current settings, image and broker epoch through functions."""

    node_id: int
    current_settings: Callable[[], Settings]
    current_image: Callable[[], ClusterImage]
    current_broker_epoch: Callable[[], int]

    @property
    def settings(self) -> Settings:
        return self.current_settings()

    @property
    def broker_epoch(self) -> int:
        return self.current_broker_epoch()

    @property
    def metadata_version(self) -> int:
        return self.current_image().features.get(METADATA_VERSION, 0)

    def address_of(self, broker: int) -> Address | None:
        """Returns the inter-broker listener of a broker; None if the broker is not registered."""
        found = self.current_image().brokers.get(broker)
        endpoint = found and found.listeners.get(inter_broker_listener(self.settings))
        return Address(*endpoint) if endpoint else None


def inter_broker_listener(settings: Settings) -> str:
    """Returns the name of the listener for connections between brokers."""
    return settings.inter_broker_listener_name or settings.security_inter_broker_protocol
