"""A story that waits for what does not come is ended, and tells its seed."""

from __future__ import annotations

import asyncio

import pytest

from pykbroker.testing.simulation import NeverEnds, Simulation


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


def test_a_story_that_never_ends_is_ended_with_its_seed() -> None:
    with Simulation(43) as world:
        world.broker(topics=["trucks"])
        with pytest.raises(NeverEnds) as told:
            world.run(wait_for_ever(), days_max=0.01)
    notes = "\n".join(told.value.__notes__)
    assert "0.01 days" in notes
    assert "SIMULATION_SEED=43" in notes
    assert world.seconds < 1_000


def test_what_failed_meanwhile_is_told_in_its_place() -> None:
    async def fail() -> None:
        raise AssertionError("that is why")

    with Simulation(43) as world:
        world.broker(topics=["trucks"])
        world.start("writer", fail())
        with pytest.raises(AssertionError, match="that is why"):
            world.run(wait_for_ever(), days_max=0.01)


def test_each_story_has_days_of_its_own() -> None:
    with Simulation(43) as world:
        kafka = world.broker(topics=["trucks"])
        for _ in range(3):
            world.run(asyncio.sleep(600), days_max=0.01)
        kafka.produce("trucks", ["still there"])
