"""Applies committed metadata to the image of the broker, then to the parts that depend on it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykbroker.metadata.effective_settings import effective_settings
from pykbroker.metadata.features import TRANSACTION_VERSION
from pykbroker.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from pykbroker.settings import names_without_effect, topic_names_without_effect
from pykbroker.settings.load import WITHOUT_EFFECT
from pykbroker.slices import in_slices
from pykbroker.wiring import consumer_group_settings, group_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordinators.group_coordinator import GroupCoordinator
    from pykbroker.coordinators.topics_of_cluster import TopicsOfCluster
    from pykbroker.coordinators.transaction_coordinator import TransactionCoordinator
    from pykbroker.generation import Generation
    from pykbroker.metadata.image import ClusterImage, ImageDelta, TopicImage
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker.reconciler import Reconciler
    from pykbroker.settings import CurrentSettings, Settings
    from pykbroker.settings.current import Attempt

logger = logging.getLogger(__name__)


class MetadataApplier:
    """Receives each committed delta. A part that fails is retried by the reconciler."""

    image: ClusterImage
    """Committed metadata; the controller has another image."""
    partitions: Partitions
    topics: TopicsOfCluster
    groups: GroupCoordinator
    transactions: TransactionCoordinator

    def __init__(
        self, current_settings: CurrentSettings, generation: Generation, reconciler: Reconciler
    ) -> None:
        self.current_settings = current_settings
        self._own_settings = current_settings.value
        self.generation = generation
        self.reconciler = reconciler
        self._logged_without_effect: set[str] = set()
        self._is_open = asyncio.Event()

    def start_with(self, image: ClusterImage) -> None:
        """Applies the properties in the first image."""
        self.image = image
        self.current_settings.value = effective_settings(self._own_settings, image)
        for resource_type, name in image.configurations:
            self.log_without_effect(resource_type, name)

    def open(self) -> None:
        """Begins to apply deltas, which wait until all parts are there."""
        self._is_open.set()

    async def apply_delta(self, delta: ImageDelta) -> None:
        """Applies a committed delta to the image of the broker, then to its parts.

        Creating thousands of logs takes long, so it yields to the event loop between slices. A part
        that fails is logged and retried; the other parts are not affected.
        """
        if not self._is_open.is_set():
            await self._is_open.wait()
        image = self.image
        image.apply(delta)
        self.generation.advance()
        note_failure = partial(self.reconciler.note_failure, delta.last_offset)
        deletions = self.partitions.drop_in_slices(delta.topics_deleted, note_failure)
        await in_slices(deletions, begins_at_once=True)
        updates = self.partitions.apply_metadata_in_slices(
            image, delta.topics.values(), note_failure
        )
        await in_slices(updates, begins_at_once=True)
        self.topics.changed()
        attempt = partial(self.reconciler.attempt, delta.last_offset)
        attempt("the group coordinator", self.update_group_coordinator)
        attempt("the transaction coordinator", self.update_transaction_coordinator)
        if delta.topics_deleted:
            attempt(
                f"committed offsets of deleted topics ({delta.last_offset})",
                partial(self.delete_offsets, delta.topics_deleted),
            )
        for resource_type, name in delta.configurations:
            self.log_without_effect(resource_type, name)
            if resource_type == TOPIC_RESOURCE:
                attempt(
                    f"configuration of {name}", partial(self.partitions.reconfigure, image, name)
                )
        types = {resource_type for resource_type, _ in delta.configurations}
        if BROKER_RESOURCE in types:
            attempt("settings", lambda: self.change_settings(attempt))
        elif GROUP_RESOURCE in types:
            attempt(
                "settings of consumer groups",
                lambda: self.configure_groups(self.current_settings.value),
            )

    def update_group_coordinator(self) -> None:
        self.groups.update_partitions(self.image.partition_count(CONSUMER_OFFSETS))

    def update_transaction_coordinator(self) -> None:
        self.transactions.update_partitions(
            self.image.partition_count(TRANSACTION_STATE),
            transaction_version=self.image.features.get(TRANSACTION_VERSION, 0),
        )

    def load_coordinators(self) -> None:
        """Loads coordinators of led partitions: at startup, and when a missing log opens later.

        After a power loss, a broker that is alone repairs transactions from all of its logs. With
        other brokers the logs are incomplete evidence, and replication has kept the records.
        """
        has_transactions = self.image.partition_count(TRANSACTION_STATE) > 0
        is_alone = self.image.brokers.keys() <= {self.partitions.node_id}
        if has_transactions and is_alone and not self.partitions.directory.was_clean:
            self.transactions.repair_losses()
        self.update_group_coordinator()
        self.update_transaction_coordinator()

    def delete_offsets(self, topics: Iterable[TopicImage]) -> None:
        """Deletes the committed offsets of deleted topics.

        A retry leaves names that exist again, because a group may have committed to the new topic.
        OffsetFetch ignores offsets of the old one: their topic id differs.
        """
        self.groups.topics_deleted([it.name for it in topics if it.name not in self.image.topics])

    def change_settings(self, attempt: Attempt) -> None:
        self.current_settings.change(effective_settings(self._own_settings, self.image), attempt)

    def configure_groups(self, settings: Settings) -> None:
        self.groups.configure(
            group_settings(settings), consumer_group_settings(settings, self.image.configurations)
        )

    def log_without_effect(self, resource_type: int, resource: str) -> None:
        """Logs properties that are stored but have no effect, each once."""
        given = self.image.configurations.get((resource_type, resource), {})
        if resource_type == BROKER_RESOURCE:
            without_effect = names_without_effect(given)
        elif resource_type == TOPIC_RESOURCE:
            without_effect = topic_names_without_effect(given)
        else:
            return
        names = [name for name in without_effect if name not in self._logged_without_effect]
        if names:
            self._logged_without_effect.update(names)
            logger.warning(WITHOUT_EFFECT, ", ".join(names))
