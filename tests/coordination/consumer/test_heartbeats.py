"""Rejected heartbeats have Apache Kafka's error codes and messages."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.coordination.consumer.world import GROUP, World

TOO_GREAT, TOO_SMALL = (
    f"The consumer group member has a {words} than the one known by the group coordinator (2). "
    "The member must abandon all its partitions and rejoin."
    for words in ("greater member epoch (9)", "smaller member epoch (1)")
)

JOIN: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 10_000,
    "subscribed_topic_names": ["orders"],
    "topic_partitions": [],
}


def heartbeat(member_id: str = "anna", **more: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(**{"group_id": GROUP, "member_id": member_id, **more})


def world_with_orders(settings: ConsumerGroupSettings | None = None) -> World:
    world = World(settings)
    world.topics.put("orders", 4)
    return world


SENSELESS = {
    "no member id": ({**JOIN, "member_id": ""}, "MemberId can't be empty."),
    "no group id": ({**JOIN, "group_id": " "}, "GroupId can't be empty."),
    "empty instance id": ({**JOIN, "instance_id": ""}, "InstanceId can't be empty."),
    "empty rack": ({**JOIN, "rack_id": ""}, "RackId can't be empty."),
    "no rebalance timeout": (
        {**JOIN, "rebalance_timeout_ms": -1},
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    "silent on partitions": (
        {**JOIN, "topic_partitions": None},
        "TopicPartitions must be empty when (re-)joining.",
    ),
    "owns partitions": (
        {**JOIN, "topic_partitions": [TopicPartitions(topic_id=bytes(16), partitions=[1])]},
        "TopicPartitions must be empty when (re-)joining.",
    ),
    "no subscription": (
        {**JOIN, "subscribed_topic_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    "leaves for a while without a name": ({"member_epoch": -2}, "InstanceId can't be null."),
    "an epoch of no meaning": ({"member_epoch": -3}, "MemberEpoch is invalid."),
}


@pytest.mark.parametrize(("fields", "words"), SENSELESS.values(), ids=SENSELESS)
def test_a_malformed_heartbeat_is_an_invalid_request(fields: dict[str, Any], words: str) -> None:
    answer = world_with_orders().heartbeat(heartbeat(**fields))
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, words)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (None, 0, 0)


REFUSED: dict[str, tuple[dict[str, Any], ErrorCode, str]] = {
    "an assignor of its own": (
        {**JOIN, "server_assignor": "mine"},
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor mine is not supported. Supported assignors: uniform, range.",
    ),
    "a broken regular expression": (
        {**JOIN, "subscribed_topic_names": None, "subscribed_topic_regex": "("},
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        "SubscribedTopicRegex `(` is not a valid regular expression: missing closing ).",
    ),
    "a stranger": (
        {"member_id": "eve", "member_epoch": 2},
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member eve is not a member of group fleet.",
    ),
    "a stranger leaves": (
        {"member_id": "eve", "member_epoch": -1},
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member eve is not a member of group fleet.",
    ),
    "an unknown instance": (
        {"instance_id": "i1", "member_epoch": 2},
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Instance id i1 is unknown.",
    ),
    "an epoch ahead": (
        {"member_epoch": 9},
        ErrorCode.FENCED_MEMBER_EPOCH,
        TOO_GREAT,
    ),
    "an epoch behind": (
        {"member_epoch": 1},
        ErrorCode.FENCED_MEMBER_EPOCH,
        TOO_SMALL,
    ),
    "another group": (
        {"group_id": "nope", "member_epoch": 3},
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Consumer group nope not found.",
    ),
    "leaving another group": (
        {"group_id": "nope", "member_epoch": -1},
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group nope not found.",
    ),
}


@pytest.mark.parametrize(("fields", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_a_rejected_heartbeat_changes_nothing(
    fields: dict[str, Any], code: ErrorCode, words: str
) -> None:
    world = world_with_orders()
    world.heartbeat(heartbeat(**JOIN))
    before = len(world.log)
    answer = world.heartbeat(heartbeat(**fields))
    assert (answer.error_code, answer.error_message) == (code, words)
    assert len(world.log) == before


def test_an_old_client_gets_a_member_id_or_may_choose_one() -> None:
    world = world_with_orders()
    assert world.heartbeat(heartbeat("", **JOIN), version=0).member_id == "new-1"
    assert world.heartbeat(heartbeat("mine", **JOIN), version=0).member_id == "mine"


def test_a_full_group_accepts_only_its_members() -> None:
    world = world_with_orders(ConsumerGroupSettings(members_max=1))
    assert world.heartbeat(heartbeat("anna", **JOIN)).error_code == ErrorCode.NONE
    full = world.heartbeat(heartbeat("bob", **JOIN))
    assert full.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.heartbeat(heartbeat("anna", **JOIN)).error_code == ErrorCode.NONE


def test_the_previous_epoch_is_accepted_with_partitions_still_owned() -> None:
    world = world_with_orders()
    topic = world.topics.by_name["orders"].topic_id
    world.heartbeat(heartbeat("anna", **JOIN))
    world.pass_time(2_000)
    world.heartbeat(heartbeat("bob", **JOIN))
    kept = [TopicPartitions(topic_id=topic, partitions=[0, 1])]
    world.heartbeat(heartbeat(member_epoch=2))
    assert world.heartbeat(heartbeat(member_epoch=2, topic_partitions=kept)).member_epoch == 3
    assert world.heartbeat(heartbeat(member_epoch=2, topic_partitions=kept)).member_epoch == 3
    all_of_it = [TopicPartitions(topic_id=topic, partitions=[0, 1, 2])]
    refused = world.heartbeat(heartbeat(member_epoch=2, topic_partitions=all_of_it))
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    refused = world.heartbeat(heartbeat(member_epoch=2))
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({}, False),
        ({"rebalance_timeout_ms": 5, "subscribed_topic_names": ["orders"]}, False),
        ({"topic_partitions": [], "subscribed_topic_names": ["orders"]}, False),
        (JOIN | {"member_epoch": 2}, True),
        (JOIN, True),
    ],
)
def test_a_full_heartbeat_gets_the_assignment_again(
    fields: dict[str, Any],
    is_told: bool,  # noqa: FBT001  # a column of the table
) -> None:
    world = world_with_orders()
    world.heartbeat(heartbeat(**JOIN))
    answer = world.heartbeat(heartbeat(**{"member_epoch": 2, **fields}))
    assert (answer.assignment is not None) == is_told


def test_the_assignor_with_most_votes_is_used() -> None:
    world = world_with_orders()
    world.heartbeat(heartbeat("anna", **JOIN))
    assert world.group.describe(topics=world.topics, settings=world.settings).assignor_name == (
        "uniform"
    )
    world.heartbeat(heartbeat("bob", **JOIN, server_assignor="range"))
    assert world.group.describe(topics=world.topics, settings=world.settings).assignor_name == (
        "range"
    )


def test_many_joins_in_one_moment_cost_one_assignment() -> None:
    world = world_with_orders()
    for index in range(50):
        world.heartbeat(heartbeat(f"member-{index}", **JOIN))
    assert world.state.assignment_epoch == 2
    assert world.state.epoch == 51
    world.pass_time(1_000)
    world.heartbeat(heartbeat("member-0", member_epoch=2))
    assert world.state.assignment_epoch == 51


def test_the_target_of_an_unknown_member_goes_to_a_new_member() -> None:
    """As in a log of another program."""
    world = world_with_orders()
    world.heartbeat(heartbeat(**JOIN))
    [topic] = world.topics.by_name.values()
    world.append(records.target(GROUP, "anna", {topic.topic_id: frozenset({0, 1})}))
    world.append(records.target(GROUP, "nobody", {topic.topic_id: frozenset({2, 3})}))
    world.now_ms += world.settings.assignment_interval_ms
    world.heartbeat(heartbeat("berta", **JOIN))
    assert world.state.target_of("berta") == {topic.topic_id: frozenset({2, 3})}


def test_an_empty_target_is_replayed() -> None:
    """As written by the leader of a classic group with more members than partitions."""
    world = world_with_orders()
    world.heartbeat(heartbeat(**JOIN))
    [topic] = world.topics.by_name.values()
    for share in ({}, {topic.topic_id: frozenset[int]()}, {}):
        world.append(records.target(GROUP, "anna", share))
    world.now_ms += world.settings.assignment_interval_ms
    world.heartbeat(heartbeat("berta", **JOIN))
    targets = [it[topic.topic_id] for it in world.state.targets.values()]
    assert sorted(partition for share in targets for partition in share) == [0, 1, 2, 3]


def test_overlapping_targets_in_the_log_are_fixed_by_the_next_assignment() -> None:
    world = world_with_orders()
    world.heartbeat(heartbeat(**JOIN))
    world.heartbeat(heartbeat("berta", **JOIN))
    [topic] = world.topics.by_name.values()
    world.append(records.target(GROUP, "anna", {topic.topic_id: frozenset({0, 1})}))
    world.append(records.target(GROUP, "berta", {topic.topic_id: frozenset({1, 2})}))
    world.restart()
    world.now_ms += world.settings.assignment_interval_ms
    world.heartbeat(heartbeat("clara", **JOIN))
    targets = [it[topic.topic_id] for it in world.state.targets.values()]
    assert sorted(partition for share in targets for partition in share) == [0, 1, 2, 3]
