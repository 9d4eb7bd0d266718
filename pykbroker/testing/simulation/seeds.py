"""Which seed a simulation has, and how it is given again."""

from __future__ import annotations

import os
import random
from typing import Final

VARIABLE: Final = "SIMULATION_SEED"
"""Of the environment; `--kafka-seed` of pytest sets it."""

MANY_VARIABLE: Final = "SIMULATION_SEEDS"

SEEDS_MAX: Final = 2**32


def seed_asked_for() -> int | None:
    text = os.environ.get(VARIABLE)
    return None if not text else int(text)


def new_seed() -> int:
    """The one that was asked for, or one that nobody has thought of."""
    asked = seed_asked_for()
    return random.SystemRandom().randrange(SEEDS_MAX) if asked is None else asked


def seeds(count: int) -> list[int]:
    """For `pytest.mark.parametrize`: 0, 1, 2 and so on, or the one that was asked for alone.

    SIMULATION_SEEDS of the environment asks every test for more: `5000`, or `20000-25000`.
    """
    asked = seed_asked_for()
    if asked is not None:
        return [asked]
    first, dash, end = os.environ.get(MANY_VARIABLE, str(count)).partition("-")
    return list(range(int(first), int(end))) if dash else list(range(int(first)))


def how_to_repeat(seed: int) -> str:
    return f"simulation seed {seed}: to repeat it, run with {VARIABLE}={seed}"
