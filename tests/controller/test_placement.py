"""Placement: drawn examples for small clusters, properties for all."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.controller.placement import Candidate, place_replicas
from pykbroker_protocol.errors import ErrorCode, Refusal


def placed(
    candidates: Sequence[Candidate], partitions: int, replicas: int, drawn: int = 0
) -> list[tuple[int, ...]]:
    result = place_replicas(
        candidates, partitions=partitions, replicas=replicas, draw=lambda bound: drawn % bound
    )
    assert not isinstance(result, Refusal)
    return list(result)


def brokers(*racks: str | None) -> list[Candidate]:
    """Brokers 1, 2, 3 and so on, each in the rack named."""
    return [Candidate(number, rack) for number, rack in enumerate(racks, 1)]


@pytest.mark.parametrize(
    ("candidates", "replicas", "picture"),
    [
        (brokers(None), 1, [(1,), (1,), (1,)]),
        (brokers(None, None, None), 1, [(1,), (2,), (3,), (1,)]),
        (brokers(None, None, None), 2, [(1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2)]),
        (brokers("a", "a", "b", "b"), 2, [(1, 3), (3, 1), (2, 4), (4, 2)]),
        (brokers("a", "b", "c"), 3, [(1, 2, 3), (2, 3, 1), (3, 1, 2)]),
    ],
)
def test_leaders_alternate_over_racks_and_brokers(
    candidates: list[Candidate], replicas: int, picture: list[tuple[int, ...]]
) -> None:
    assert placed(candidates, len(picture), replicas) == picture


@pytest.mark.parametrize("count", range(2, 6))
def test_in_one_rack_each_leader_has_each_follower_equally_often(count: int) -> None:
    candidates, period = brokers(*[None] * count), count * (count - 1)
    pairs = placed(candidates, 3 * period, 2, drawn=count - 1)
    for lap in range(3):
        assert len(set(pairs[lap * period : (lap + 1) * period])) == period


@pytest.mark.parametrize("count", range(1, 5))
def test_over_two_racks_each_leader_has_each_follower_of_the_other_equally_often(
    count: int,
) -> None:
    candidates, period = brokers(*["a"] * count, *["b"] * count), 2 * count * count
    pairs = placed(candidates, 3 * period, 2)
    for lap in range(3):
        assert len(set(pairs[lap * period : (lap + 1) * period])) == period


def test_a_rack_of_fenced_brokers_has_no_leader() -> None:
    candidates = [*brokers("a", "b"), Candidate(3, "c", fenced=True)]
    assert placed(candidates, 4, 1, drawn=0) == [(1,), (2,), (1,), (2,)]


@pytest.mark.parametrize("drawn", range(7))
def test_the_first_rack_and_the_first_broker_are_random(drawn: int) -> None:
    candidates = brokers("a", "a", "b", "b", "c", "c")
    bounds: list[int] = []

    def draw(bound: int) -> int:
        bounds.append(bound)
        return drawn % bound

    result = place_replicas(candidates, partitions=1, replicas=1, draw=draw)
    assert bounds == [3, 6]
    rack, lap = drawn % 3, (drawn % 6) // 3
    assert not isinstance(result, Refusal)
    assert list(result) == [(2 * rack + lap % 2 + 1,)]


def test_a_fenced_broker_gets_replicas_only_if_the_others_do_not_suffice() -> None:
    candidates = [Candidate(1), Candidate(2, fenced=True), Candidate(3)]
    assert all(2 not in replicas for replicas in placed(candidates, 6, 2))
    assert all(replicas[-1] == 2 for replicas in placed(candidates, 6, 3))


@pytest.mark.parametrize(
    ("candidates", "reason"),
    [
        ([], "All brokers are currently fenced."),
        (
            [Candidate(1, fenced=True)],
            "All brokers are currently fenced or have all their log directories cordoned.",
        ),
        (
            [Candidate(1)],
            (
                "The target replication factor of 2 cannot be reached because only 1 broker(s) are "
                "registered or some brokers have all their log directories cordoned."
            ),
        ),
    ],
)
def test_too_few_brokers_are_refused(candidates: list[Candidate], reason: str) -> None:
    assert place_replicas(candidates, partitions=1, replicas=2, draw=lambda _: 0) == Refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition 2 time(s): {reason}",
    )


clusters = st.lists(
    st.builds(lambda rack, fenced: (rack, fenced), st.sampled_from(["a", "b", "c"]), st.booleans()),
    min_size=1,
    max_size=9,
).map(lambda rows: [Candidate(number, *row) for number, row in enumerate(rows)])


@given(clusters, st.integers(1, 9), st.integers(1, 40), st.integers(0, 100))
def test_every_placement_is_valid(
    candidates: list[Candidate], replicas: int, partitions: int, drawn: int
) -> None:
    usable = [it for it in candidates if not it.fenced]
    if not usable or replicas > len(candidates):
        return
    result = placed(candidates, partitions, replicas, drawn)
    racks = {it.broker_id: it.rack for it in candidates}
    fenced = {it.broker_id for it in candidates if it.fenced}
    for chosen in result:
        assert len(set(chosen)) == replicas
        assert chosen[0] not in fenced
        assert len(fenced.intersection(chosen)) == max(0, replicas - len(usable))
        if replicas <= len(usable):
            spread = {racks[it] for it in chosen}
            assert len(spread) == min(replicas, len({it.rack for it in usable}))


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 50))
def test_brokers_of_equal_racks_lead_equally_often(racks: int, each: int, drawn: int) -> None:
    candidates = brokers(*[str(rack) for rack in range(racks) for _ in range(each)])
    result = placed(candidates, 3 * racks * each, min(2, racks * each), drawn)
    leads = Counter(chosen[0] for chosen in result)
    assert max(leads.values()) - min(leads.values()) <= 2
    holds = Counter(broker for chosen in result for broker in chosen)
    assert set(holds) == {it.broker_id for it in candidates}
