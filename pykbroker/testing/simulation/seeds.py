"""The seed of a simulation, from the environment or random."""

from __future__ import annotations

import os
import random
from typing import Final

VARIABLE: Final = "SIMULATION_SEED"
"""Environment variable with one seed; pytest's `--kafka-seed` sets it."""

MANY_VARIABLE: Final = "SIMULATION_SEEDS"

SEEDS_MAX: Final = 2**32


def seed_from_environment() -> int | None:
    text = os.environ.get(VARIABLE)
    return None if not text else int(text)


def new_seed() -> int:
    """The seed from the environment, else a random one."""
    given = seed_from_environment()
    return random.SystemRandom().randrange(SEEDS_MAX) if given is None else given


def seeds(count: int) -> list[int]:
    """Seeds for `pytest.mark.parametrize`: 0, 1, 2 and so on, or only that of SIMULATION_SEED.

    The environment variable SIMULATION_SEEDS replaces 'count': `5000`, or a range `20000-25000`.
    """
    given = seed_from_environment()
    if given is not None:
        return [given]
    first, dash, end = os.environ.get(MANY_VARIABLE, str(count)).partition("-")
    return list(range(int(first), int(end))) if dash else list(range(int(first)))


def how_to_repeat(seed: int) -> str:
    return f"simulation seed {seed}: to repeat it, run with {VARIABLE}={seed}"
