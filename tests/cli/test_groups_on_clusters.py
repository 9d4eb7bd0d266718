"""Group commands on Apache Kafka and on PyKBroker."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

pytestmark = pytest.mark.slow

Run = Callable[..., Any]


@pytest.fixture
def group(ask: Run, topic: str) -> str:
    """A group without members, with two committed records per partition."""
    for partition in "012":
        ask("produce", topic, *"abcdef", "--partition", partition)
    name = f"{topic}-readers"
    assert ask("groups", "reset", name, "--topic", topic, "--to", "2").exit_code == 0
    return name


class Following(subprocess.Popen[str]):
    """A command that runs until it is interrupted."""

    def __init__(self, bootstrap: str, *arguments: str) -> None:
        super().__init__(
            [sys.executable, "-m", "pykbroker", *arguments, "--follow", "--bootstrap", bootstrap],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )

    def lines(self, count: int) -> list[str]:
        assert self.stdout is not None
        return [self.stdout.readline().rstrip("\n") for _ in range(count)]

    def interrupt(self) -> tuple[int, str]:
        self.send_signal(signal.SIGINT)
        _, errors = self.communicate(timeout=30)
        return self.returncode, errors


@pytest.fixture
def follow(node: Any) -> Iterator[Callable[..., Following]]:
    running: list[Following] = []

    def start(*arguments: str) -> Following:
        running.append(Following(node.bootstrap, *arguments))
        return running[-1]

    yield start
    for command in running:
        with command:
            command.kill()


@pytest.fixture
def read(follow: Callable[..., Following], topic: str, group: str) -> Callable[[], Following]:
    """A member of the group: `pykbroker consume`."""
    return lambda: follow("consume", topic, "--group", group)


@pytest.fixture
def member(node: Any, topic: str, group: str) -> Iterator[Callable[..., Consumer]]:
    """A member of the group: librdkafka, after its assignment."""
    consumers: list[Consumer] = []

    def join(**settings: Any) -> Consumer:
        base = {"bootstrap.servers": node.bootstrap, "group.id": group, "client.id": "truck"}
        consumer = Consumer({**base, "enable.auto.commit": False, **settings})
        consumers.append(consumer)
        consumer.subscribe([topic])
        assert consumer.poll(30) is not None
        return consumer

    yield join
    for consumer in consumers:
        consumer.close()


def offsets(ask: Run, group: str) -> list[int]:
    """Returns the committed offsets, ordered by partition."""
    (found,) = ask("groups", "lag", group, "--json").json
    return [it["committed_offset"] for it in found["partitions"]]


def test_a_group_is_listed_with_its_state_and_type(ask: Run, group: str) -> None:
    listed = {it["group"]: it for it in ask("groups", "list", "--json").json}
    assert listed[group] == {
        "group": group,
        "state": "Empty",
        "type": "classic",
        "protocol": None,
        "coordinator": 1,
    }
    assert group in ask("groups", "list", "--names", "--state", "Empty").lines
    assert group not in ask("groups", "list", "--names", "--state", "Stable").lines
    assert group in ask("groups", "list", "--names", "--type", "classic").lines
    assert group not in ask("groups", "list", "--names", "--type", "share").lines
    assert ask("groups", "list").lines[0].split()[:3] == ["GROUP", "STATE", "TYPE"]


def test_members_are_described_with_their_assignment(
    ask: Run, group: str, topic: str, member: Callable[..., Consumer]
) -> None:
    member(**{"group.instance.id": "depot-7"})
    (found,) = ask("groups", "describe", group, "--json").json
    assert (found["state"], found["type"], found["assignor"]) == ("Stable", "classic", "range")
    (described,) = found["members"]
    assert described["member"].startswith("depot-7-")
    assert described | {"member": ""} == {
        "member": "",
        "instance": "depot-7",
        "client": "truck",
        "host": "127.0.0.1",
        "epoch": None,
        "topics": [topic],
        "topic_regex": None,
        "assignment": [{"topic": topic, "partitions": [0, 1, 2]}],
        "target": None,
    }
    lines = ask("groups", "describe", group).lines
    assert lines[:3] == [
        f"group        {group}",
        "state        Stable",
        "type         classic, consumer",
    ]
    assert lines[-1].endswith(f"{topic}:0-2")


def test_lag_is_shown_by_partition_member_and_client(
    ask: Run, group: str, topic: str, member: Callable[..., Consumer]
) -> None:
    member()
    (found,) = ask("groups", "lag", group, "--json").json
    assert (found["state"], found["lag"]) == ("Stable", 12)
    assert [
        (it["topic"], it["partition"], it["committed_offset"], it["end_offset"], it["lag"])
        for it in found["partitions"]
    ] == [(topic, partition, 2, 6, 4) for partition in range(3)]
    assert [(it["client"], it["partitions"], it["lag"]) for it in found["members"]] == [
        ("truck", 3, 12)
    ]
    assert found["clients"] == [{"client": "truck", "members": 1, "partitions": 3, "lag": 12}]
    for by, row in (("partition", [topic, "0", "2", "6", "4"]), ("client", ["truck", "1", "3"])):
        head, _, first, *_ = ask("groups", "lag", group, "--by", by).lines
        assert head == f"group {group}, Stable, lag 12"
        assert first.split()[: len(row)] == row
    assert f"group {group}, Stable, lag 12" in ask("groups", "lag").lines


def test_follow_repeats_the_lag(
    ask: Run, group: str, topic: str, follow: Callable[..., Following]
) -> None:
    following = follow("groups", "lag", group, "--interval", "0.1")
    assert following.lines(1) == [f"group {group}, Empty, lag 12"]
    ask("produce", topic, "g", "--partition", "0")
    head = f"group {group}, Empty, lag 13"
    assert any(following.lines(1) == [head] for _ in range(1000))
    assert following.interrupt() == (130, "")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (("--to", "earliest"), [0, 0, 0]),
        (("--to", "latest"), [6, 6, 6]),
        (("--to", "4"), [4, 4, 4]),
        (("--to", "99"), [6, 6, 6]),
        (("--to", "-1"), [5, 5, 5]),
        (("--to", "1970-01-01T00:00Z"), [0, 0, 0]),
        (("--to", "2100-01-01"), [6, 6, 6]),
        (("--back", "1d"), [0, 0, 0]),
        (("--shift", "3"), [5, 5, 5]),
        (("--shift", "-3"), [0, 0, 0]),
    ],
)
def test_offsets_are_reset_after_a_dry_run(
    ask: Run, group: str, topic: str, where: tuple[str, str], expected: list[int]
) -> None:
    arguments = ("groups", "reset", group, "--topic", topic, *where, "--json")
    planned = ask(*arguments, "--dry-run").json
    assert [it["new_offset"] for it in planned] == expected
    assert offsets(ask, group) == [2, 2, 2]
    assert ask(*arguments).json == planned
    assert offsets(ask, group) == expected


def test_only_the_given_partitions_are_reset(ask: Run, group: str, topic: str) -> None:
    outcome = ask("groups", "reset", group, "--topic", f"{topic}:0,2", "--shift", "-3")
    assert outcome.lines == [
        f"group {group}: 2 partitions reset",
        *outcome.lines[1:2],
        f"{topic}          0          2    0    6  limited to the log start",
        f"{topic}          2          2    0    6  limited to the log start",
    ]
    assert offsets(ask, group) == [0, 2, 0]
    ask("groups", "reset", group, "--all-topics", "--to", "end")
    assert offsets(ask, group) == [6, 6, 6]


def test_offsets_and_group_are_deleted(ask: Run, group: str, topic: str) -> None:
    deleted = ask("groups", "delete-offsets", group, "--topic", f"{topic}:1")
    assert deleted.lines == [f"{group}: offset of {topic}-1 deleted"]
    assert offsets(ask, group) == [2, 2]
    assert ask("groups", "delete", group).lines == [f"{group}: deleted"]
    assert group not in ask("groups", "list", "--names").lines
    assert ask("groups", "delete", group, "--if-exists").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "unknown"), "describe unknown: GROUP_ID_NOT_FOUND: "),
        (("lag", "unknown"), "lag unknown: GROUP_ID_NOT_FOUND: "),
        (("delete", "unknown"), "delete unknown: GROUP_ID_NOT_FOUND: "),
        (
            ("reset", "GROUP", "--topic", "nowhere", "--to", "end"),
            "reset GROUP: UNKNOWN_TOPIC_OR_PARTITION: ",
        ),
        (
            ("reset", "GROUP", "--topic", "TOPIC:7", "--to", "end"),
            (
                "reset GROUP: UNKNOWN_TOPIC_OR_PARTITION: Partition 7 does not exist, "
                "the topic has 3 partition(s)."
            ),
        ),
        (
            ("reset", "unknown", "--topic", "TOPIC:1", "--shift", "1"),
            "reset unknown TOPIC-1: --shift needs a committed offset",
        ),
        (
            ("reset", "unknown", "--all-topics", "--to", "end"),
            "reset unknown: no committed offsets",
        ),
        (
            ("delete-offsets", "GROUP", "--topic", "TOPIC:8"),
            "delete-offsets GROUP TOPIC-8: UNKNOWN_TOPIC_OR_PARTITION: ",
        ),
        (
            ("delete-offsets", "GROUP", "--topic", "nowhere"),
            "delete-offsets GROUP: no committed offsets for topic nowhere",
        ),
        (
            ("remove-member", "GROUP", "--member", "ghost"),
            "remove-member GROUP ghost: UNKNOWN_MEMBER_ID: ",
        ),
        (
            ("remove-member", "GROUP", "--instance", "ghost"),
            "remove-member GROUP ghost: UNKNOWN_MEMBER_ID: ",
        ),
    ],
)
def test_an_error_is_one_line(
    ask: Run, group: str, topic: str, arguments: tuple[str, ...], message: str
) -> None:
    def named(text: str) -> str:
        known = text in {"GROUP", "TOPIC"} or text.startswith("TOPIC:")
        return text.replace("GROUP", group).replace("TOPIC", topic) if known else text

    outcome = ask("groups", *map(named, arguments))
    subject, colon, rest = message.partition(":")
    subject = subject.replace("GROUP", group).replace("TOPIC", topic)
    assert outcome.exit_code == 1
    assert outcome.err.startswith(f"groups {subject}{colon}{rest}")
    assert outcome.err.count("\n") == 1


def test_a_group_with_members_is_not_changed(
    ask: Run, group: str, topic: str, member: Callable[..., Consumer]
) -> None:
    member()
    for arguments, error in (
        (("reset", group, "--topic", topic, "--to", "end"), "NON_EMPTY_GROUP: The group is"),
        (("delete", group), "NON_EMPTY_GROUP: "),
        (("delete-offsets", group, "--topic", f"{topic}:0"), "GROUP_SUBSCRIBED_TO_TOPIC: "),
    ):
        outcome = ask("groups", *arguments)
        assert outcome.exit_code == 1
        assert error in outcome.err
    assert offsets(ask, group) == [2, 2, 2]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("option", ["--instance", "--member", "--all"])
def test_members_are_removed(
    ask: Run, group: str, member: Callable[..., Consumer], option: str, protocol: str
) -> None:
    member(**{"group.instance.id": "depot-7", "group.protocol": protocol})
    (described,) = ask("groups", "describe", group, "--json").json[0]["members"]
    name = {"--instance": ["depot-7"], "--member": [described["member"]], "--all": []}[option]
    removed = ask("groups", "remove-member", group, option, *name, "--reason", "broken")
    assert removed.exit_code == 0, removed.err
    assert removed.out.endswith(" removed\n")
    assert described["member"] not in ask("groups", "describe", group).out


def test_a_group_of_the_consumer_protocol_is_described(
    ask: Run, group: str, topic: str, member: Callable[..., Consumer]
) -> None:
    member(**{"group.protocol": "consumer"})
    (found,) = ask("groups", "describe", group, "--json").json
    assert (found["type"], found["state"]) == ("consumer", "Stable")
    assert found["epoch"] > 0
    (described,) = found["members"]
    assert described["epoch"] == found["epoch"]
    assert described["assignment"] == [{"topic": topic, "partitions": [0, 1, 2]}]
    assert described["target"] == described["assignment"]
    assert ask("groups", "lag", group, "--json").json[0]["lag"] == 12


def test_a_group_starts_at_its_committed_offsets(ask: Run, group: str, topic: str) -> None:
    assert sorted(ask("consume", topic, "--group", group).lines) == sorted("cdef" * 3)
    assert offsets(ask, group) == [6, 6, 6]
    assert ask("consume", topic, "--group", group).lines == []
    assert ask("groups", "describe", group, "--json").json[0]["state"] == "Empty"


def test_a_new_group_starts_at_the_given_position(ask: Run, group: str, topic: str) -> None:
    for begin, count in (("end", 0), ("-1", 3), ("beginning", 18)):
        new = f"{group}-{begin}"
        assert len(ask("consume", topic, "--group", new, "--from", begin).lines) == count


def test_only_printed_records_are_committed(ask: Run, group: str, topic: str) -> None:
    assert len(ask("consume", topic, "--group", group, "--max", "3").lines) == 3
    assert sum(offsets(ask, group)) == 2 * 3 + 3


def test_partition_cannot_be_combined_with_group(ask: Run, topic: str) -> None:
    outcome = ask("consume", topic, "--group", "g", "--partition", "1")
    assert outcome.exit_code == 2
    assert outcome.err.startswith(f"consume {topic}: --partition cannot be combined with --group")


def test_ctrl_c_commits_and_leaves(ask: Run, group: str, read: Callable[[], Following]) -> None:
    reader = read()
    assert len(reader.lines(12)) == 12
    assert reader.interrupt() == (130, "")
    assert offsets(ask, group) == [6, 6, 6]
    (found,) = ask("groups", "describe", group, "--json").json
    assert (found["state"], found["members"]) == ("Empty", [])


def test_two_members_share_partitions_and_one_takes_over_the_others(
    ask: Run, group: str, topic: str, read: Callable[[], Following], eventually: Run
) -> None:
    def shares() -> list[int]:
        (found,) = ask("groups", "lag", group, "--json").json
        return sorted(it["partitions"] for it in found["members"])

    first = read()
    assert len(first.lines(12)) == 12
    second = read()
    assert eventually(lambda: shares() == [1, 2])
    for partition in "012":
        ask("produce", topic, "x", "--partition", partition)
    assert eventually(lambda: offsets(ask, group) == [7, 7, 7])
    assert second.interrupt() == (130, "")
    assert eventually(lambda: shares() == [3])
    for partition in "012":
        ask("produce", topic, "y", "--partition", partition)
    assert eventually(lambda: offsets(ask, group) == [8, 8, 8])
    assert first.interrupt() == (130, "")


def test_a_member_waiting_in_join_group_can_leave(
    ask: Run,
    group: str,
    read: Callable[[], Following],
    member: Callable[..., Consumer],
    eventually: Run,
) -> None:
    def state() -> str:
        found: str = ask("groups", "describe", group, "--json").json[0]["state"]
        return found

    member()  # and it is not polled again, so that it does not join the next generation
    reader = read()
    assert eventually(lambda: state() == "PreparingRebalance")
    assert reader.interrupt() == (130, "")
    assert len(ask("groups", "describe", group, "--json").json[0]["members"]) == 1


def test_coordinator_records_are_dumped(
    group: str, topic: str, node: Any, pykbroker: Run, member: Callable[..., Consumer]
) -> None:
    member()
    logs = [it for it in node.data_dir.glob("__consumer_offsets-*/*.log") if it.stat().st_size]
    dumped = pykbroker("log", "dump", "--json", "--records", *map(str, logs))
    found = [json.loads(line) for line in dumped.lines]
    records = [it for it in found if it["kind"] == "coordination"]
    ours = [it for it in records if group in it["key"].values()]
    committed = [it for it in ours if it["type"] == "OffsetCommit"]
    assert {it["key"]["partition"]: it["value"]["offset"] for it in committed} == {0: 2, 1: 2, 2: 2}
    generation = [it["value"] for it in ours if it["type"] == "GroupMetadata"][-1]
    assert generation["members"][0]["assignment"] == {topic: [0, 1, 2]}
    assert "unknown" not in {it["type"] for it in records}
