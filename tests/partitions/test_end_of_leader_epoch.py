"""End offsets of leader epochs (OffsetForLeaderEpoch)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pykbroker_protocol.errors import ErrorCode, Refusal
from tests.partitions.transactions import open_partition, write

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN = (-1, -1)


@pytest.mark.parametrize(
    ("asked", "found"),
    [(0, (0, 2)), (1, (0, 2)), (2, (0, 2)), (3, (3, 2)), (4, UNKNOWN), (-1, UNKNOWN)],
)
def test_offset_for_an_empty_leader_epoch_is_that_of_the_previous_epoch(
    tmp_path: Path, asked: int, found: tuple[int, int]
) -> None:
    with open_partition(tmp_path / "t-0") as partition:
        write(partition, b"a", b"b")
        partition.leadership = replace(partition.leadership, leader_epoch=3)
        assert partition.end_of_epoch(asked) == found


@pytest.mark.parametrize(
    ("asked", "found"), [(0, (0, 0)), (-2, (-2, 0)), (1, UNKNOWN), (-1, UNKNOWN)]
)
def test_the_epoch_of_the_leader_ends_at_the_log_end_of_an_empty_log(
    tmp_path: Path, asked: int, found: tuple[int, int]
) -> None:
    with open_partition(tmp_path / "t-0") as partition:
        assert partition.end_of_epoch(asked) == found


@pytest.mark.parametrize(
    ("current", "code"),
    [
        (-1, None),
        (0, None),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_request_with_another_leader_epoch_is_refused(
    tmp_path: Path, current: int, code: ErrorCode | None
) -> None:
    with open_partition(tmp_path / "t-0") as partition:
        refusal = partition.epoch_refusal(current)
        assert (refusal.code if isinstance(refusal, Refusal) else None) == code
