"""The block of producer ids that this node hands out from."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykbroker.controller.controller import Controller


class ProducerIds:
    """Takes the next block from the controller when the one in hand is used up."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._block = range(0)
        self._allocating = asyncio.Lock()

    def take(self) -> int | None:
        """The next id of the block in hand, if there is one."""
        if not self._block:
            return None
        producer_id = self._block[0]
        self._block = self._block[1:]
        return producer_id

    async def take_from_next_block(self) -> int:
        async with self._allocating:
            while (producer_id := self.take()) is None:
                self._block = await self._controller.allocate_producer_ids()
        return producer_id
