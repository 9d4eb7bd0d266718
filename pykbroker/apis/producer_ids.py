"""The block of producer ids of this node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker_protocol.errors import Refusal

if TYPE_CHECKING:
    from pykbroker.controller_access import ControllerAccess


class ProducerIds:
    """Allocates producer ids; requests the next block from the controller when one is used up."""

    def __init__(self, controller: ControllerAccess) -> None:
        self._controller = controller
        self._block = range(0)
        self._allocation: asyncio.Task[Refusal | None] | None = None

    def take(self) -> int | None:
        """Returns the next id of the current block, or None if the block is used up."""
        if not self._block:
            return None
        producer_id = self._block[0]
        self._block = self._block[1:]
        return producer_id

    async def take_from_next_block(self) -> int | Refusal:
        """Waits for the next block. All waiting requests share one allocation and its refusal."""
        while (producer_id := self.take()) is None:
            if self._allocation is None:
                self._allocation = asyncio.create_task(self._allocate())
            refusal = await asyncio.shield(self._allocation)
            if refusal is not None:
                return refusal
        return producer_id

    async def _allocate(self) -> Refusal | None:
        try:
            block = await self._controller.allocate_producer_ids()
        finally:
            self._allocation = None
        if isinstance(block, Refusal):
            return block
        self._block = block
        return None
