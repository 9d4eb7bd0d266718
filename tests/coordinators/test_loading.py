"""A coordinator's partition that cannot be loaded, or need not be any longer."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pykbroker.coordinators import coordinated_log
from pykbroker.coordinators.coordinated_log import Status
from pykbroker_protocol.errors import ErrorCode
from tests.coordinators.diary import TOPIC, diary_in, group_log
from tests.storage.batches import NOW

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_groups_in_a_damaged_partition_have_no_coordinator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with diary_in(tmp_path) as diary:
        diary.commit(5)
    flip_last_byte(tmp_path / f"{0:020}.log")
    with caplog.at_level(logging.ERROR), group_log(tmp_path, was_clean=True) as diary:
        await diary.log.load()
        assert diary.log.status is Status.FAILED
        assert diary.commit(6) == [ErrorCode.NOT_COORDINATOR]
    (told,) = caplog.messages
    assert told.startswith("t-0: coordinator cannot be loaded (")
    assert "the batch at position 0 is corrupt); clients get NOT_COORDINATOR;" in told


def flip_last_byte(file: Path) -> None:
    stored = bytearray(file.read_bytes())
    stored[-1] ^= 0x10
    file.write_bytes(stored)


async def test_what_is_given_up_while_it_loads_is_not_taken_up_again(tmp_path: Path) -> None:
    async with diary_in(tmp_path) as diary:
        diary.commit(5)
    with group_log(tmp_path) as diary:
        loading = asyncio.create_task(diary.log.load())
        await asyncio.sleep(0)
        diary.log.resign()
        await loading
        assert diary.log.status is Status.RESIGNED


async def test_other_work_has_its_turn_after_so_many_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with diary_in(tmp_path) as diary:
        for offset in range(20):
            diary.commit(offset)
    for records, turns_least in ((1, 20), (5, 4)):
        monkeypatch.setattr(coordinated_log, "RECORDS_PER_SLICE", records)
        with group_log(tmp_path) as diary:
            loading = asyncio.create_task(diary.log.load())
            turns = 0
            while not loading.done():
                await asyncio.sleep(0)
                turns += not loading.done()
            assert turns >= turns_least
            assert diary.log.status is Status.ACTIVE


async def test_a_topic_that_is_deleted_while_a_coordinator_loads_takes_its_offsets_along(
    tmp_path: Path,
) -> None:
    async with diary_in(tmp_path) as diary:
        diary.commit(5)
    with group_log(tmp_path) as diary:
        loading = asyncio.create_task(diary.log.load())
        await asyncio.sleep(0)
        assert diary.log.status is Status.LOADING
        diary.log.decide_once_loaded(lambda: diary.log.state.topics_deleted([TOPIC], NOW))
        await loading
        assert diary.offsets == {}
    async with diary_in(tmp_path) as diary:
        assert diary.offsets == {}
