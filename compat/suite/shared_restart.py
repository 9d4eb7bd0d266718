"""One restart of a broker for all the cells that play the same scenario at the same time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class SharedRestart:
    """Restarts the broker once all who are to see it have come to that point, or have ended."""

    def __init__(self, restart: Callable[[], object], count: int) -> None:
        self._restart = restart
        self._missing = count
        self._is_done = False
        self._changed = threading.Condition()

    def __call__(self) -> None:
        """Come to the point, and wait until the broker has restarted."""
        with self._changed:
            self._missing -= 1
            self._restart_when_all_are_here()
            self._changed.wait_for(lambda: self._is_done)

    def leave(self, *, has_come: bool) -> None:
        """A cell has ended; if it never came to the point, nobody waits for it any more."""
        if has_come:
            return
        with self._changed:
            self._missing -= 1
            self._restart_when_all_are_here()

    def _restart_when_all_are_here(self) -> None:
        if self._missing == 0 and not self._is_done:
            try:
                self._restart()
            finally:
                self._is_done = True
                self._changed.notify_all()
