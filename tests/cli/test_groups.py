"""Reset offsets, runs of partitions and host names, without a broker."""

import pytest

from pykbroker.cli.groups.describe import host_text, runs_text
from pykbroker.cli.groups.reset import Limit, TopicOffsets, reset_within
from pykbroker.client.committed_offsets import TopicPartition


@pytest.mark.parametrize(
    ("target", "after", "limited_by"),
    [(4, 4, None), (2, 2, None), (9, 9, None), (1, 2, Limit.START), (10, 9, Limit.END)],
)
def test_a_reset_offset_is_limited_to_the_log(
    target: int, after: int, limited_by: Limit | None
) -> None:
    offsets = TopicOffsets(starts={0: 2}, ends={0: 9}, committed={0: 5})
    planned = reset_within(TopicPartition("trucks", 0), target, offsets)
    assert (planned.before, planned.after, planned.limited_by) == (5, after, limited_by)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([0, 2, 3, 7], "0,2-3,7")],
)
def test_consecutive_partitions_are_printed_as_ranges(numbers: list[int], text: str) -> None:
    assert runs_text(numbers) == text


@pytest.mark.parametrize("host", ["/10.0.0.7", "truck/10.0.0.7", "10.0.0.7"])
def test_a_host_is_printed_as_its_address(host: str) -> None:
    assert host_text(host) == "10.0.0.7"
