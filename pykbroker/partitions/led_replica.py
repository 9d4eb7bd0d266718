"""The replica as its leader side uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pykbroker.generation import Generation
    from pykbroker.partitions.flushing import Flushing
    from pykbroker.partitions.leadership import Leadership
    from pykbroker.partitions.off_loop import OffLoop
    from pykbroker.partitions.waiting import WaitingRequests
    from pykbroker.settings import TopicSettings
    from pykbroker_storage.log import Log


class LedReplica(Protocol):
    """Implemented by `Partition`, which has the leader side."""

    topic: str
    index: int
    topic_id: bytes
    node_id: int
    log: Log
    leadership: Leadership
    settings: TopicSettings
    high_watermark: int
    waiting: WaitingRequests
    flushing: Flushing
    off_loop: OffLoop
    generation: Generation

    @property
    def leads(self) -> bool: ...
    @property
    def min_in_sync(self) -> int: ...
    @property
    def settled_offset(self) -> int: ...
    def set_high_watermark(self, offset: int) -> None: ...
