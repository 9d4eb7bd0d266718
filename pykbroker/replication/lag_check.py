"""Removes lagging followers from the in-sync sets of leader partitions, periodically."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.partitions.leader_context import LeaderContext
    from pykbroker.partitions.partition import Partition

logger = logging.getLogger(__name__)

PARTITIONS_PER_SLICE: Final = 500


async def check_lag(partitions: Iterable[Partition], context: LeaderContext) -> None:
    """Checks all partitions twice per `replica.lag.time.max.ms`, as Apache Kafka does."""
    while True:
        await context.clock.sleep(context.lag_seconds_max / 2)
        try:
            await check_once(partitions)
        except Exception:
            logger.exception("in-sync replicas: lag check failed; repeated at its next time")


async def check_once(partitions: Iterable[Partition]) -> None:
    for position, partition in enumerate(partitions, 1):
        if partition.leads:
            partition.leader.remove_lagging_followers()
            # A follower that is no longer live or caught up may have held back both watermarks.
            partition.commit()
            if partition.waiting.deletions:
                partition.waiting.complete_deletions(partition.low_watermark)
        if position % PARTITIONS_PER_SLICE == 0:
            await asyncio.sleep(0)
