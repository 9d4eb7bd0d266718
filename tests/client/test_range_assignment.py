"""The leader of a classic group assigns ranges of partitions."""

import pytest

from pykbroker.client.range_assignment import Subscription, assign_ranges
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
    ("subscriptions", "shares"),
    [
        ([Subscription("a", None, ["trucks"])], {"a": {"trucks": [0, 1, 2, 3, 4]}}),
        (
            [Subscription("b", None, ["trucks"]), Subscription("a", None, ["trucks", "depots"])],
            {"a": {"depots": [0, 1], "trucks": [0, 1, 2]}, "b": {"trucks": [3, 4]}},
        ),
        (
            [Subscription("a", "z", ["trucks"]), Subscription("b", "y", ["trucks"])],
            {"a": {"trucks": [3, 4]}, "b": {"trucks": [0, 1, 2]}},
        ),
        (
            [Subscription(it, None, ["depots"]) for it in "abc"],
            {"a": {"depots": [0]}, "b": {"depots": [1]}, "c": {}},
        ),
        ([Subscription("a", None, ["nowhere"])], {"a": {}}),
    ],
)
def test_each_member_gets_consecutive_partitions(
    subscriptions: list[Subscription], shares: dict[str, dict[str, list[int]]]
) -> None:
    assert assign_ranges(subscriptions, TOPICS) == shares
