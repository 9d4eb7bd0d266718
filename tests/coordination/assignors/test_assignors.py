"""Properties of all assignors for random members, topics and previous assignments."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.coordination.assignors import ASSIGNORS
from pykbroker.coordination.assignors.assignor import (
    NOTHING,
    Subscriber,
    TopicToAssign,
)
from pykbroker.coordination.assignors.range import assign_range
from pykbroker.coordination.assignors.uniform import assign_to_new_members, assign_uniform
from pykbroker.generators import run_to_end

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.coordination.assignors.assignor import Assignment

    Topics = Mapping[bytes, TopicToAssign]

TOPIC_IDS = [bytes([number]) * 16 for number in range(1, 6)]
RACKS = ["east", "west", "north"]

topics_of_any_size = st.dictionaries(
    st.sampled_from(TOPIC_IDS),
    st.integers(0, 12).map(lambda count: TopicToAssign(partition_count=count)),
    max_size=4,
)
any_owned = st.dictionaries(
    st.sampled_from(TOPIC_IDS), st.frozensets(st.integers(0, 14), min_size=1), max_size=3
)


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> list[Subscriber]:
    everything = frozenset(draw(st.sets(st.sampled_from(TOPIC_IDS), min_size=1)))
    some = st.just(everything) if alike else st.frozensets(st.sampled_from(TOPIC_IDS))
    return [
        Subscriber(
            member_id=f"member-{index}",
            topic_ids=draw(some),
            owned=draw(any_owned),
            rack_id=draw(st.sampled_from([None, *RACKS])),
        )
        for index in range(draw(st.integers(1, 6)))
    ]


def loads(assigned: Mapping[str, Assignment]) -> dict[str, int]:
    return {member_id: sum(map(len, share.values())) for member_id, share in assigned.items()}


def owned_after(
    group: Sequence[Subscriber], assigned: Mapping[str, Assignment]
) -> list[Subscriber]:
    return [
        Subscriber(
            member_id=it.member_id,
            topic_ids=it.topic_ids,
            owned=assigned[it.member_id],
            rack_id=it.rack_id,
        )
        for it in group
    ]


def moved(before: Mapping[str, Assignment], after: Mapping[str, Assignment]) -> int:
    """Counts the partitions with a new owner."""
    owner = {(t, p): m for m, share in before.items() for t in share for p in share[t]}
    return sum(
        owner.get((t, p), m) != m for m, share in after.items() for t in share for p in share[t]
    )


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups(), topics=topics_of_any_size)
def test_every_partition_has_one_owner_among_its_subscribers(
    name: str, group: list[Subscriber], topics: Topics
) -> None:
    assigned = ASSIGNORS[name](group, topics)
    assert assigned.keys() == {it.member_id for it in group}
    subscribed = {it.member_id: it.topic_ids for it in group}
    owners = Counter(
        (topic_id, partition)
        for member_id, share in assigned.items()
        for topic_id in share
        for partition in share[topic_id]
        if topic_id in subscribed[member_id]
    )
    wanted = frozenset().union(*(it.topic_ids for it in group)) & topics.keys()
    assert owners == {
        (topic_id, partition): 1
        for topic_id in wanted
        for partition in range(topics[topic_id].partition_count)
    }
    assert all(partitions for share in assigned.values() for partitions in share.values())


@given(group=groups(alike=True), topics=topics_of_any_size)
def test_uniform_shares_of_equal_subscribers_differ_by_one_at_most(
    group: list[Subscriber], topics: Topics
) -> None:
    counts = loads(assign_uniform(group, topics)).values()
    assert max(counts) - min(counts) <= 1


@given(group=groups(), topics=topics_of_any_size)
def test_no_move_improves_the_balance_of_mixed_subscribers(
    group: list[Subscriber], topics: Topics
) -> None:
    assigned = assign_uniform(group, topics)
    load = loads(assigned)
    for member_id, share in assigned.items():
        for topic_id in share:
            others = [it.member_id for it in group if topic_id in it.topic_ids]
            assert load[member_id] - min(load[it] for it in others) <= 1


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups(), topics=topics_of_any_size)
def test_an_unchanged_group_keeps_its_assignment(
    name: str, group: list[Subscriber], topics: Topics
) -> None:
    first = ASSIGNORS[name](group, topics)
    assert ASSIGNORS[name](owned_after(group, first), topics) == first


@given(group=groups(alike=True), topics=topics_of_any_size)
def test_uniform_moves_only_the_share_of_a_new_member(
    group: list[Subscriber], topics: Topics
) -> None:
    before = assign_uniform(group, topics)
    newcomer = Subscriber(member_id="newcomer", topic_ids=group[0].topic_ids)
    after = assign_uniform([*owned_after(group, before), newcomer], topics)
    assert moved(before, after) == sum(map(len, after["newcomer"].values()))


@given(
    owner_of=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    cut=st.integers(0, 30),
    newcomers=st.sets(st.integers(0, 9), min_size=1),
)
def test_the_fast_path_for_new_members_has_the_same_result(
    owner_of: list[int], cut: int, newcomers: set[int]
) -> None:
    """Two topics of any size with equal subscribers that own all partitions."""
    sizes = {TOPIC_IDS[0]: min(cut, len(owner_of)), TOPIC_IDS[1]: max(len(owner_of) - cut, 0)}
    sizes = {topic_id: size for topic_id, size in sizes.items() if size}
    places = [(topic_id, number) for topic_id, size in sizes.items() for number in range(size)]
    owned: dict[str, dict[bytes, frozenset[int]]] = {f"member-{it}": {} for it in owner_of}
    for owner, (topic_id, partition) in zip(owner_of, places, strict=True):
        share = owned[f"member-{owner}"]
        share[topic_id] = share.get(topic_id, frozenset()) | {partition}
    names = sorted({*owned, *(f"member-{it}-new" for it in newcomers)})
    group = [Subscriber(it, frozenset(sizes), owned.get(it, {})) for it in names]
    topics = {it: TopicToAssign(partition_count=size) for it, size in sizes.items()}
    counts = {it: sum(map(len, owned.get(it, {}).values())) for it in names}
    empty = dict.fromkeys(names, NOTHING)
    changed = run_to_end(assign_to_new_members(counts, owned))
    assert {**empty, **owned, **changed} == assign_uniform(group, topics)


@given(group=groups(alike=True), topics=topics_of_any_size)
def test_uniform_moves_only_the_partitions_of_a_member_that_left(
    group: list[Subscriber], topics: Topics
) -> None:
    before = assign_uniform(group, topics)
    after = assign_uniform(owned_after(group, before)[1:], topics)
    assert moved(before, after) == (loads(before)[group[0].member_id] if len(group) > 1 else 0)


@given(group=groups(alike=True), topics=topics_of_any_size)
def test_an_unchanged_uniform_share_is_the_same_object(
    group: list[Subscriber], topics: Topics
) -> None:
    """Identity makes the comparison of unchanged shares nearly free in large groups."""
    group = owned_after(group, assign_uniform(group, topics))
    after = assign_uniform(group, topics)
    assert all(after[it.member_id] is it.owned for it in group)


@given(group=groups(alike=True), partitions=st.integers(1, 12))
def test_range_assigns_the_same_run_in_equal_topics(
    group: list[Subscriber], partitions: int
) -> None:
    topics = dict.fromkeys(group[0].topic_ids, TopicToAssign(partition_count=partitions))
    for share in assign_range(group, topics).values():
        assert len(set(share.values())) <= 1
        for run in share.values():
            assert sorted(run) == list(range(min(run), max(run) + 1))


@given(group=groups(alike=True), topics=topics_of_any_size)
def test_range_runs_differ_by_one_at_most(group: list[Subscriber], topics: Topics) -> None:
    assigned = assign_range(group, topics)
    for topic_id in topics.keys() & group[0].topic_ids:
        lengths = [len(share.get(topic_id, ())) for share in assigned.values()]
        assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("name", ASSIGNORS)
def test_partitions_go_to_members_in_their_rack(name: str) -> None:
    topic_id = TOPIC_IDS[0]
    racks = [frozenset({rack}) for rack in ("west", "west", "east", "east")]
    topic = TopicToAssign(partition_count=4, racks=racks)
    group = [
        Subscriber(member_id="a", topic_ids=frozenset({topic_id}), rack_id="east"),
        Subscriber(member_id="b", topic_ids=frozenset({topic_id}), rack_id="west"),
    ]
    assigned = ASSIGNORS[name](group, {topic_id: topic})
    assert assigned == {"a": {topic_id: frozenset({2, 3})}, "b": {topic_id: frozenset({0, 1})}}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_static_members_keep_their_partitions_under_a_new_member_id(name: str) -> None:
    topics = {TOPIC_IDS[0]: TopicToAssign(partition_count=5)}

    def share_of(ids: dict[str, str]) -> dict[str, Assignment]:
        group = [
            Subscriber(member_id=it, instance_id=ids[it], topic_ids=frozenset(TOPIC_IDS[:1]))
            for it in sorted(ids)
        ]
        assigned = ASSIGNORS[name](group, topics)
        return {ids[it]: assigned[it] for it in ids}

    assert share_of({"x": "one", "y": "two"}) == share_of({"z": "one", "a": "two"})


def test_assigning_a_thousand_partitions_to_two_hundred_members_is_fast() -> None:
    """The limit is many times the usual duration; it detects a higher complexity."""
    topics = {it: TopicToAssign(partition_count=200) for it in TOPIC_IDS}
    group = [
        Subscriber(member_id=f"m{index:03}", topic_ids=frozenset(TOPIC_IDS)) for index in range(200)
    ]
    began = time.process_time()
    assigned = assign_uniform(group, topics)
    assign_uniform(owned_after(group, assigned)[:-1], topics)
    assert set(loads(assigned).values()) == {5}
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("racks", [(), (frozenset({"east"}), frozenset({"west"}))])
@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("name", ASSIGNORS)
def test_no_step_of_an_assignor_costs_more_than_a_pass_over_members_or_topics(
    name: str,
    is_mixed: bool,  # noqa: FBT001 - by name
    racks: tuple[frozenset[str], ...],
) -> None:
    topics = {
        index.to_bytes(16, "big"): TopicToAssign(partition_count=2, racks=racks)
        for index in range(300)
    }
    ids = sorted(topics)
    group = [
        Subscriber(
            member_id=f"member-{index}",
            topic_ids=frozenset(ids[: 100 * (1 + index % 3)] if is_mixed else ids),
            rack_id=RACKS[index % 3],
        )
        for index in range(200)
    ]
    efforts = list(ASSIGNORS[name].in_steps(group, topics))
    assert max(efforts) <= 3 * max(len(group), len(topics))
    assert len(efforts) > len(group)
