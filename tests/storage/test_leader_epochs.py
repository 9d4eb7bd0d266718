import pytest

from pykbroker_storage.checkpoint import MalformedCheckpoint
from pykbroker_storage.leader_epochs import LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    leader_epochs = LeaderEpochs()
    for epoch, start_offset in entries:
        leader_epochs.assign(epoch, start_offset)
    return leader_epochs


def test_a_log_without_records_has_no_epoch() -> None:
    empty = LeaderEpochs()
    assert empty.latest_epoch == -1
    assert empty.epoch_at(0) == -1
    assert empty.end_offset_for(0, 0) == (-1, -1)
    assert empty.end_offset_for(-1, 0) == (-1, -1)


@pytest.mark.parametrize(
    ("requested", "answer"),
    [
        (-1, (-1, -1)),  # a follower without an epoch
        (1, (1, 10)),  # older than all: ends at the start of the oldest
        (2, (2, 30)),
        (3, (2, 30)),  # no records here: the previous epoch is returned
        (4, (2, 30)),
        (5, (5, 50)),
        (6, (6, 99)),  # the latest ends at the log end
        (7, (-1, -1)),  # unknown
    ],
)
def test_an_epoch_ends_at_the_start_offset_of_the_next(
    requested: int, answer: tuple[int, int]
) -> None:
    known = epochs((2, 10), (5, 30), (6, 50))
    assert known.end_offset_for(requested, log_end_offset=99) == answer


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (29, 2), (30, 5), (1000, 6)])
def test_epoch_at_returns_the_epoch_of_a_record(offset: int, epoch: int) -> None:
    assert epochs((2, 10), (5, 30), (6, 50)).epoch_at(offset) == epoch


@pytest.mark.parametrize(
    ("assigned", "is_news", "left"),
    [
        ((5, 30), False, [(2, 10), (5, 30)]),
        ((5, 40), False, [(2, 10), (5, 30)]),  # an epoch starts once
        ((6, 40), True, [(2, 10), (5, 30), (6, 40)]),
        ((6, 30), True, [(2, 10), (6, 30)]),  # epoch 5 has no records
        ((6, 5), True, [(6, 5)]),
        ((5, 20), True, [(2, 10), (5, 20)]),
        ((3, 40), True, [(2, 10), (3, 40)]),
    ],
)
def test_assigning_an_epoch_removes_conflicting_entries(
    assigned: tuple[int, int], *, is_news: bool, left: list[tuple[int, int]]
) -> None:
    known = epochs((2, 10), (5, 30))
    assert known.assign(*assigned) is is_news
    assert known.entries() == left


@pytest.mark.parametrize(
    ("offset", "changed", "left"),
    [
        (31, False, [(2, 10), (5, 30)]),
        (30, True, [(2, 10)]),
        (11, True, [(2, 10)]),
        (10, True, []),
        (0, True, []),
    ],
)
def test_truncating_the_end_removes_later_epochs(
    offset: int, *, changed: bool, left: list[tuple[int, int]]
) -> None:
    known = epochs((2, 10), (5, 30))
    assert known.truncate_from_end(offset) is changed
    assert known.entries() == left


@pytest.mark.parametrize(
    ("offset", "changed", "left"),
    [
        (5, False, [(2, 10), (5, 30)]),
        (10, False, [(2, 10), (5, 30)]),
        (20, True, [(2, 20), (5, 30)]),
        (30, True, [(5, 30)]),
        (99, True, [(5, 99)]),
    ],
)
def test_truncating_the_start_keeps_the_epoch_the_log_starts_in(
    offset: int, *, changed: bool, left: list[tuple[int, int]]
) -> None:
    known = epochs((2, 10), (5, 30))
    assert known.truncate_from_start(offset) is changed
    assert known.entries() == left


def test_the_epoch_checkpoint_has_kafkas_format() -> None:
    assert epochs((0, 0), (3, 17)).encode() == b"0\n2\n0 0\n3 17\n"
    assert LeaderEpochs.decode(b"0\n1\n1 0\n").entries() == [(1, 0)]
    assert LeaderEpochs.decode(b"0\n0\n").entries() == []
    assert LeaderEpochs.decode(b"").entries() == []  # as Kafka creates it


@pytest.mark.parametrize(
    "data",
    [b"0\n", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0\n", b"0\n1\n0 x\n", b"0\n1\n-1 0\n"],
)
def test_a_malformed_epoch_checkpoint_raises(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        LeaderEpochs.decode(data)
