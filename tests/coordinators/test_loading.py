"""Loading of a coordinator's partition: failure, resignation, slices."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pykbroker.coordinators import coordinated_log
from pykbroker.coordinators.coordinated_log import Status
from pykbroker_protocol.errors import ErrorCode
from tests.coordinators.group_log_driver import TOPIC, group_log, loaded_group_log
from tests.storage.batches import NOW

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_groups_in_a_corrupt_partition_have_no_coordinator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with loaded_group_log(tmp_path) as driver:
        driver.commit(5)
    flip_last_byte(tmp_path / f"{0:020}.log")
    with caplog.at_level(logging.ERROR), group_log(tmp_path, was_clean=True) as driver:
        await driver.log.load()
        assert driver.log.status is Status.FAILED
        assert driver.commit(6) == [ErrorCode.NOT_COORDINATOR]
    (lines,) = caplog.messages
    assert lines.startswith("t-0: coordinator cannot be loaded (")
    assert "the batch at position 0 is corrupt); clients get NOT_COORDINATOR;" in lines


def flip_last_byte(file: Path) -> None:
    stored = bytearray(file.read_bytes())
    stored[-1] ^= 0x10
    file.write_bytes(stored)


async def test_a_partition_resigned_while_loading_does_not_become_active(tmp_path: Path) -> None:
    async with loaded_group_log(tmp_path) as driver:
        driver.commit(5)
    with group_log(tmp_path) as driver:
        loading = asyncio.create_task(driver.log.load())
        await asyncio.sleep(0)
        driver.log.resign()
        await loading
        assert driver.log.status is Status.RESIGNED


async def test_loading_yields_after_each_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with loaded_group_log(tmp_path) as driver:
        for offset in range(20):
            driver.commit(offset)
    for records, turns_least in ((1, 20), (5, 4)):
        monkeypatch.setattr(coordinated_log, "RECORDS_PER_SLICE", records)
        with group_log(tmp_path) as driver:
            loading = asyncio.create_task(driver.log.load())
            turns = 0
            while not loading.done():
                await asyncio.sleep(0)
                turns += not loading.done()
            assert turns >= turns_least
            assert driver.log.status is Status.ACTIVE


async def test_deleting_a_topic_while_loading_deletes_its_offsets(
    tmp_path: Path,
) -> None:
    async with loaded_group_log(tmp_path) as driver:
        driver.commit(5)
    with group_log(tmp_path) as driver:
        loading = asyncio.create_task(driver.log.load())
        await asyncio.sleep(0)
        assert driver.log.status is Status.LOADING
        driver.log.decide_once_loaded(lambda: driver.log.state.topics_deleted([TOPIC], NOW))
        await loading
        assert driver.offsets == {}
    async with loaded_group_log(tmp_path) as driver:
        assert driver.offsets == {}
