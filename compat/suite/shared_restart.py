"""One broker restart shared by all cells of a scenario that run at the same time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class SharedRestart:
    """Restarts the broker when each cell has requested the restart or has ended."""

    def __init__(self, restart: Callable[[], object], count: int) -> None:
        self._restart = restart
        self._missing = count
        self._is_done = False
        self._changed = threading.Condition()

    def __call__(self) -> None:
        """Requests the restart and waits until it is done."""
        with self._changed:
            self._missing -= 1
            self._restart_if_all_ready()
            self._changed.wait_for(lambda: self._is_done)

    def leave(self, *, has_restarted: bool) -> None:
        """Removes an ended cell, so that others do not wait for its restart request."""
        if has_restarted:
            return
        with self._changed:
            self._missing -= 1
            self._restart_if_all_ready()

    def _restart_if_all_ready(self) -> None:
        if self._missing == 0 and not self._is_done:
            try:
                self._restart()
            finally:
                self._is_done = True
                self._changed.notify_all()
