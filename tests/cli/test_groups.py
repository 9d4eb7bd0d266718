"""What members of a group mean for each other, and how the commands write it, without a broker."""

from collections.abc import Callable

import pytest

from pykbroker.cli.groups.committed import Place
from pykbroker.cli.groups.describing import host_text, runs_text
from pykbroker.cli.groups.member_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from pykbroker.cli.groups.reset import Limit, Standing, move_within
from pykbroker.cli.groups.sharing import Reader, share_by_range
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


def topic(name: str, partition_count: int) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            error_code=0, partition_index=it, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
        )
        for it in range(partition_count)
    ]
    return MetadataResponseTopic(
        error_code=0, name=name, topic_id=name.encode().ljust(16), partitions=partitions
    )


TOPICS = [topic("depots", 2), topic("trucks", 5)]


@pytest.mark.parametrize(
    ("readers", "shares"),
    [
        ([Reader("a", None, ["trucks"])], {"a": {"trucks": [0, 1, 2, 3, 4]}}),
        (
            [Reader("b", None, ["trucks"]), Reader("a", None, ["trucks", "depots"])],
            {"a": {"depots": [0, 1], "trucks": [0, 1, 2]}, "b": {"trucks": [3, 4]}},
        ),
        (
            [Reader("a", "z", ["trucks"]), Reader("b", "y", ["trucks"])],
            {"a": {"trucks": [3, 4]}, "b": {"trucks": [0, 1, 2]}},
        ),
        (
            [Reader(it, None, ["depots"]) for it in "abc"],
            {"a": {"depots": [0]}, "b": {"depots": [1]}, "c": {}},
        ),
        ([Reader("a", None, ["nowhere"])], {"a": {}}),
    ],
)
def test_every_member_gets_its_run(
    readers: list[Reader], shares: dict[str, dict[str, list[int]]]
) -> None:
    assert share_by_range(readers, TOPICS) == shares


def test_what_members_write_they_can_read() -> None:
    assert read_subscription(write_subscription(["trucks", "depots"])) == ["trucks", "depots"]
    assert read_assignment(write_assignment({"trucks": [0, 2]})) == {"trucks": [0, 2]}
    assert read_assignment(b"") == {}


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = b"\0\x63" + write_assignment({"trucks": [1]})[2:] + b"more"
    assert read_assignment(newer) == {"trucks": [1]}


@pytest.mark.parametrize("read", [read_subscription, read_assignment])
@pytest.mark.parametrize("content", [b"\0", b"\xff\xff\0", b"\0\0\0\0\0\x09"])
def test_bytes_of_another_meaning_are_malformed(
    read: Callable[[bytes], object], content: bytes
) -> None:
    with pytest.raises(MalformedMessage):
        read(content)


@pytest.mark.parametrize(
    ("aim", "after", "limited_by"),
    [(4, 4, None), (2, 2, None), (9, 9, None), (1, 2, Limit.START), (10, 9, Limit.END)],
)
def test_an_offset_is_moved_as_far_as_the_log_reaches(
    aim: int, after: int, limited_by: Limit | None
) -> None:
    standing = Standing(starts={0: 2}, ends={0: 9}, committed={0: 5})
    move = move_within(Place("trucks", 0), aim, standing)
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
