"""Reset offsets, runs of partitions and host names, without a broker."""

import pytest

from pykbroker.cli.groups.describing import host_text, runs_text
from pykbroker.cli.groups.reset import Limit, Standing, move_within
from pykbroker.client.committed_offsets import TopicPartition


@pytest.mark.parametrize(
    ("aim", "after", "limited_by"),
    [(4, 4, None), (2, 2, None), (9, 9, None), (1, 2, Limit.START), (10, 9, Limit.END)],
)
def test_an_offset_is_moved_as_far_as_the_log_reaches(
    aim: int, after: int, limited_by: Limit | None
) -> None:
    standing = Standing(starts={0: 2}, ends={0: 9}, committed={0: 5})
    move = move_within(TopicPartition("trucks", 0), aim, standing)
    assert (move.before, move.after, move.limited_by) == (5, after, limited_by)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([0, 2, 3, 7], "0,2-3,7")],
)
def test_runs_of_partitions_are_drawn_together(numbers: list[int], text: str) -> None:
    assert runs_text(numbers) == text


@pytest.mark.parametrize("host", ["/10.0.0.7", "truck/10.0.0.7", "10.0.0.7"])
def test_a_host_is_written_as_its_address(host: str) -> None:
    assert host_text(host) == "10.0.0.7"
