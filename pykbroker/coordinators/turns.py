"""Runs deferred decisions of all coordinator partitions, one in each iteration of the event loop.

A deferred decision may take some milliseconds. Requests of other clients are served between two.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Turns:
    """A queue without duplicates; each partition has one for itself unless it is given one."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._is_scheduled = False

    def wait(self, name: Hashable, decide: Callable[[], None]) -> None:
        self._waiting[name] = decide
        self._schedule()

    def cancel(self, name: Hashable) -> None:
        self._waiting.pop(name, None)

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        if self._waiting:
            name = next(iter(self._waiting))
            decide = self._waiting.pop(name)
            self._schedule()
            decide()
