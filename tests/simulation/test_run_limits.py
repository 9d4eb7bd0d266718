"""A run that waits for an event that does not happen ends with NeverEnds and the seed."""

from __future__ import annotations

import asyncio

import pytest

from pykbroker.testing.simulation import NeverEnds, Simulation


async def wait_forever() -> None:
    await asyncio.Event().wait()


def test_a_run_over_its_limit_ends_with_the_seed() -> None:
    with Simulation(43) as world:
        world.broker(topics=["trucks"])
        with pytest.raises(NeverEnds) as recorded:
            world.run(wait_forever(), days_max=0.01)
    notes = "\n".join(recorded.value.__notes__)
    assert "0.01 virtual days" in notes
    assert "SIMULATION_SEED=43" in notes
    assert world.seconds < 1_000


def test_a_failed_program_is_raised_instead_of_never_ends() -> None:
    async def fail() -> None:
        raise AssertionError("the cause")

    with Simulation(43) as world:
        world.broker(topics=["trucks"])
        world.start("writer", fail())
        with pytest.raises(AssertionError, match="the cause"):
            world.run(wait_forever(), days_max=0.01)


def test_the_limit_applies_to_each_run() -> None:
    with Simulation(43) as world:
        kafka = world.broker(topics=["trucks"])
        for _ in range(3):
            world.run(asyncio.sleep(600), days_max=0.01)
        kafka.produce("trucks", ["still there"])
