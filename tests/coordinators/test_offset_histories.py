"""Random commits, transactions, deletions, crashes and compactions, compared with a model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coordinators.group_log_driver import GroupLogDriver, loaded_group_log
from tests.storage.batches import NOW
from tests.storage.compaction_rounds import compact

PRODUCERS = st.sampled_from((7, 8))
PARTITIONS = st.integers(0, 1)
OUTSIDE = -1


class Commit(NamedTuple):
    partition: int
    producer_id: int = OUTSIDE


class DeleteOffset(NamedTuple):
    partition: int


class End(NamedTuple):
    producer_id: int
    committed: bool


class Crash(NamedTuple):
    compacted: bool
    """Compacts before the crash."""


Step = Commit | DeleteOffset | End | Crash
STEPS = st.one_of(
    st.builds(Commit, PARTITIONS, st.just(OUTSIDE)),
    st.builds(Commit, PARTITIONS, PRODUCERS),
    st.builds(Commit, PARTITIONS, PRODUCERS),
    st.builds(DeleteOffset, PARTITIONS),
    st.builds(End, PRODUCERS, st.booleans()),
    st.builds(End, PRODUCERS, st.booleans()),
    st.builds(Crash, st.booleans()),
)


@dataclass
class Written:
    """One commit of a history, identified by its increasing offset."""

    offset: int
    commit: Commit
    counts: bool


@dataclass
class Model:
    """The model: the last committed value counts."""

    written: list[Written] = field(default_factory=list)

    def commit(self, commit: Commit) -> int:
        offset = 1 + max((it.offset for it in self.written), default=0)
        is_outside = commit.producer_id == OUTSIDE
        self.written.append(Written(offset, commit, counts=is_outside))
        return offset

    def delete_offset(self, partition: int) -> None:
        for it in self.written:
            if it.commit.partition == partition:
                it.commit = Commit(-1)

    def end(self, end: End) -> None:
        for it in self.written:
            if it.commit.producer_id == end.producer_id and not it.counts:
                it.counts = end.committed
                it.commit = Commit(it.commit.partition if end.committed else -1)

    @property
    def offsets(self) -> dict[int, int]:
        return {
            it.commit.partition: it.offset
            for it in self.written
            if it.counts and it.commit.partition >= 0
        }

    @property
    def pending(self) -> list[int]:
        return sorted({it.commit.partition for it in self.written if not it.counts} - {-1})


async def live(folder: Path, model: Model, steps: list[Step]) -> None:
    """Runs steps until the next crash and removes them from the list."""
    async with loaded_group_log(folder) as driver:
        assert_alike(driver, model)
        while steps:
            match steps.pop(0):
                case Crash(compacted):
                    if compacted:
                        driver.partition.log.roll(NOW)
                        compact(driver.partition.log)
                    return
                case step:
                    take(step, driver, model)
            assert_alike(driver, model)


def take(step: Step, driver: GroupLogDriver, model: Model) -> None:
    match step:
        case Commit(partition, producer_id):
            driver.commit_at({partition: model.commit(step)}, producer_id)
        case DeleteOffset(partition):
            driver.delete_offset(partition)
            model.delete_offset(partition)
        case End(producer_id, committed):
            driver.end(committed=committed, producer_id=producer_id)
            model.end(step)


def assert_alike(driver: GroupLogDriver, model: Model) -> None:
    assert driver.offsets == model.offsets
    assert driver.pending == model.pending


@settings(max_examples=60)
@given(steps=st.lists(STEPS, min_size=3, max_size=25))
def test_committed_and_pending_offsets_match_the_model(steps: list[Step]) -> None:
    model = Model()
    ahead = [*steps, Crash(compacted=True), Crash(compacted=False)]
    with TemporaryDirectory() as folder:
        while ahead:
            asyncio.run(live(Path(folder) / "log", model, ahead))
