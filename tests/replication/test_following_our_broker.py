"""A follower copies partitions from a broker of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.replication.nodes import create, following, leading, produce, until
from tests.storage.batches import records_from

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_follower_copies_records_and_high_watermark(tmp_path: Path) -> None:
    async with leading(tmp_path / "leader") as broker, following(tmp_path / "copy") as follower:
        await create(broker, "orders")
        led = broker.partitions.get("orders", 0)
        assert led is not None
        produce(led, b"a", b"b")
        follower.follow_broker(broker, "orders")
        copy = follower.partition("orders")
        await until(lambda: copy.log.log_end_offset == 2)
        produce(led, b"c")
        await until(lambda: copy.high_watermark == 3)
        assert records_from(copy.log, 0) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert copy.log.leader_epochs.entries() == led.log.leader_epochs.entries()
