"""Replaces clocks and random sources of this thread for the duration of a simulation."""

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
"""The virtual time at the start: 2026-01-01."""

UPTIME_SECONDS: Final = 1_000.0
"""The monotonic clock at the start; some programs treat 0 as unset."""


@contextmanager
def patched_runtime(loop: VirtualLoop, chance: random.Random) -> Iterator[None]:
    """Other threads keep the machine's clocks. The module `random` is seeded for all threads."""
    kept = random.getstate()
    random.seed(chance.getrandbits(64))
    originals = [
        (module, name, getattr(module, name)) for module, name, _ in _replaced(loop, chance)
    ]
    for module, name, replacement in _replaced(loop, chance):
        setattr(module, name, _for_this_thread(replacement, getattr(module, name)))
    try:
        with _deterministic_collection():
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
        loop.seconds += seconds  # nothing else runs, as in a blocked event loop

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
def _deterministic_collection() -> Iterator[None]:
    """Leaves garbage collection to the loop; ignores warnings about killed clients."""
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
