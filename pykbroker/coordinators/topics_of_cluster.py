"""The topics of the cluster for consumer groups: ids, names, partition counts and racks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pykbroker.coordination.groups.consumer_topics import TopicView
    from pykbroker.metadata.image import ClusterImage, TopicImage


class TopicsOfCluster:
    """A live view of the image.

    `changed` advances `version`, so that groups recompute assignments only after a change.
    """

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._version = 0
        self._views: dict[str, TopicView] = {}

    @property
    def version(self) -> int:
        return self._version

    def changed(self) -> None:
        """Drops cached views after a change of topics, partition counts or racks."""
        self._version += 1
        self._views.clear()

    def topic(self, name: str) -> TopicView | None:
        view = self._views.get(name)
        if view is None and (found := self._image().topics.get(name)) is not None:
            view = self._views[name] = self.view_of(found)
        return view

    def topic_of_id(self, topic_id: bytes) -> TopicView | None:
        found = self._image().topics_by_id.get(topic_id)
        return None if found is None else self.topic(found.name)

    def names(self) -> Collection[str]:
        return self._image().topics

    def view_of(self, topic: TopicImage) -> TopicView:
        brokers = self._image().brokers
        rack_of = {it.id: it.rack for it in brokers.values() if it.rack is not None}
        racks = [
            frozenset(rack_of[it] for it in partition.replicas if it in rack_of)
            for partition in topic.partitions
        ]
        from pykbroker.coordination.groups.consumer_topics import (  # noqa: PLC0415  # none yet
            TopicView,
        )

        return TopicView(
            topic_id=topic.id,
            name=topic.name,
            partition_count=len(topic.partitions),
            racks=racks if rack_of else (),
        )
