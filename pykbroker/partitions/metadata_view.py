"""What partitions need to know of the cluster's metadata; the controller's image has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class PartitionMetadata(Protocol):
    @property
    def index(self) -> int: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...
    @property
    def replicas(self) -> Sequence[int]: ...
    @property
    def in_sync(self) -> Sequence[int]: ...


class TopicMetadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[PartitionMetadata]: ...


class MetadataView(Protocol):
    @property
    def topics(self) -> Mapping[str, TopicMetadata]: ...
    @property
    def configurations(self) -> Mapping[tuple[int, str], Mapping[str, str]]: ...
