"""Settings of a node: its own properties, overridden by configurations in the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.image import BROKER_RESOURCE
from pykbroker.settings import with_dynamic

if TYPE_CHECKING:
    from pykbroker.metadata.image import ClusterImage
    from pykbroker.settings import Settings

CLUSTER_WIDE = ""
"""Name of the broker resource that holds for all brokers."""


def effective_settings(settings: Settings, image: ClusterImage) -> Settings:
    """Configurations of the broker override those of the cluster, both override `settings`."""
    cluster_default = image.configurations.get((BROKER_RESOURCE, CLUSTER_WIDE))
    this_broker = image.configurations.get((BROKER_RESOURCE, str(settings.node_id)))
    if not cluster_default and not this_broker:
        return settings
    return with_dynamic(
        settings, cluster_default=cluster_default or {}, this_broker=this_broker or {}
    )
