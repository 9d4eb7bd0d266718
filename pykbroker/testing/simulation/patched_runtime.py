"""Time and chance as all Python code of this thread meets them, for the length of a simulation."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykbroker.testing.simulation.virtual_loop import VirtualLoop

BEGIN_MS: Final = 1_767_225_600_000
"""Every simulation begins with the year 2026."""

UPTIME_SECONDS: Final = 1_000.0
"""What the monotonic clock shows then; some programs take 0 for never."""


@contextmanager
def surroundings(loop: VirtualLoop, chance: random.Random) -> Iterator[None]:
    """Other threads keep the machine's own time; `random` is seeded for all."""
    kept = random.getstate()
    random.seed(chance.getrandbits(64))
    originals = [
        (module, name, getattr(module, name)) for module, name, _ in _replaced(loop, chance)
    ]
    for module, name, replacement in _replaced(loop, chance):
        setattr(module, name, _for_this_thread(replacement, getattr(module, name)))
    try:
        with _no_surprises():
            yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)
        random.setstate(kept)


def _replaced(
    loop: VirtualLoop, chance: random.Random
) -> list[tuple[Any, str, Callable[..., Any]]]:
    def wall_ns() -> int:
        return BEGIN_MS * 1_000_000 + round(loop.seconds * 1e9)

    def uptime() -> float:
        return UPTIME_SECONDS + loop.seconds

    def uptime_ns() -> int:
        return round(uptime() * 1e9)

    def sleep(seconds: float) -> None:
        loop.seconds += seconds  # the whole world stands still meanwhile

    return [
        (time, "time", lambda: wall_ns() / 1e9),
        (time, "time_ns", wall_ns),
        (time, "monotonic", uptime),
        (time, "monotonic_ns", uptime_ns),
        (time, "perf_counter", uptime),
        (time, "perf_counter_ns", uptime_ns),
        (time, "sleep", sleep),
        (os, "urandom", chance.randbytes),
        (random, "_urandom", chance.randbytes),
    ]


def _for_this_thread(
    replacement: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    own = threading.get_ident()

    def either(*given: Any) -> Any:
        return (replacement if threading.get_ident() == own else original)(*given)

    return either


@contextmanager
def _no_surprises() -> Iterator[None]:
    """The loop says when garbage is collected; clients that were killed are no leak."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            try:
                yield
            finally:
                gc.collect()
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
