"""Committed records as deltas: transactions across batches, bounds and slices."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.generators import run_to_end
from pykbroker.membership import committed_records
from pykbroker.membership.committed_records import RECORDS_PER_SLICE, CommittedRecords
from pykbroker.membership.member_replay import MemberReplay, Unserved
from pykbroker.metadata.batches import UnfinishedTransaction, leader_change, record_batch
from pykbroker.metadata.image import ClusterImage
from pykbroker_protocol.message import Message
from pykbroker_protocol.metadata.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from pykbroker_protocol.metadata.security import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from pykbroker_protocol.records.batch import RecordBatch

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def feature(level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=f"feature.{level}", feature_level=level)


def batches_of(*contents: Sequence[Message], offset: int = 0) -> list[RecordBatch]:
    batches = []
    for records in contents:
        data = record_batch(records, timestamp_ms=0, base_offset=offset, epoch=1)
        batches.append(RecordBatch.parse(data))
        offset += len(records)
    return batches


class Reader:
    """Applies all deltas of batches to an image."""

    def __init__(self) -> None:
        self.image = ClusterImage(cluster_id="test")
        self.unserved = Unserved()
        self.records = CommittedRecords(0)

    def read(self, *batches: RecordBatch) -> int:
        """Returns the number of deltas."""
        end, count = batches[-1].next_offset, 0
        while self.records.next_offset < end:
            rest = [it for it in batches if it.base_offset >= self.records.next_offset]
            replay = MemberReplay(self.image, self.unserved)
            self.image.apply(run_to_end(self.records.collect(replay, rest)))
            count += 1
        return count

    @property
    def levels(self) -> list[int]:
        return sorted(self.image.features.values())


def test_a_transaction_within_one_batch_is_applied_with_it() -> None:
    reader = Reader()
    reader.read(*batches_of([BEGIN, feature(1), END, feature(2)]))
    assert reader.levels == [1, 2]
    assert reader.records.applicable_offset == reader.image.offset == 3


def test_records_before_a_transaction_in_the_same_batch_are_applied() -> None:
    reader = Reader()
    first, second = batches_of([feature(1), BEGIN, feature(2)], [END])
    reader.read(first)
    assert reader.levels == [1]
    assert reader.records.applicable_offset == reader.image.offset == 0
    assert reader.records.has_open_transaction
    reader.read(second)
    assert reader.levels == [1, 2]
    assert reader.records.applicable_offset == 3


def test_control_batches_advance_the_offset() -> None:
    reader = Reader()
    reader.read(RecordBatch.parse(leader_change(1, [1], timestamp_ms=0)))
    assert reader.records.applicable_offset == 0
    assert reader.image.offset == 0


@pytest.mark.parametrize("records", [[BEGIN, BEGIN], [END]])
def test_transactions_that_do_not_begin_and_end_in_turn_are_refused(records: list[Message]) -> None:
    with pytest.raises(UnfinishedTransaction):
        Reader().read(*batches_of(records))


def test_an_endless_transaction_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_records, "TRANSACTION_RECORDS_MAX", 3)
    with pytest.raises(UnfinishedTransaction, match="more than 3 records"):
        Reader().read(*batches_of([BEGIN], *[[feature(it)] for it in range(1, 6)]))


def test_many_records_are_several_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_records, "RECORDS_PER_DELTA_MAX", 10)
    reader = Reader()
    assert reader.read(*batches_of(*[[feature(it)] for it in range(1, 26)])) == 3
    assert reader.levels == list(range(1, 26))


@pytest.mark.parametrize(
    "records",
    [
        [feature(it) for it in range(1, 2000)],
        [NoOpRecord()] * 2000,
        [BEGIN, *[feature(it) for it in range(1, 2000)]],
        [BEGIN, *[feature(it) for it in range(1, 2000)], END],
    ],
    ids=["records", "no operations", "open transaction", "transaction"],
)
def test_a_replay_yields_between_slices(records: list[Message]) -> None:
    committed = CommittedRecords(0)
    replay = MemberReplay(ClusterImage(cluster_id="test"), Unserved())
    slices = sum(1 for _ in committed.collect(replay, batches_of(records)))
    assert slices >= len(records) // RECORDS_PER_SLICE - 1


@given(
    steps=st.lists(st.sampled_from(["record", "begin", "end", "abort"]), max_size=30),
    cuts=st.sets(st.integers(1, 30)),
)
def test_any_division_into_batches_gives_the_records_outside_of_aborted_transactions(
    steps: list[str], cuts: set[int]
) -> None:
    records: list[Message] = []
    expected: list[int] = []
    pending: list[int] | None = None
    for level, step in enumerate(steps, 1):
        match step:
            case "begin" if pending is None:
                records.append(BEGIN)
                pending = []
            case "end" if pending is not None:
                records.append(END)
                expected += pending
                pending = None
            case "abort" if pending is not None:
                records.append(ABORT)
                pending = None
            case _:
                records.append(feature(level))
                (expected if pending is None else pending).append(level)
    edges = [0, *sorted(it for it in cuts if it < len(records)), len(records)]
    contents = [records[a:b] for a, b in pairwise(edges) if a < b]
    reader = Reader()
    for batch in batches_of(*contents):
        reader.read(batch)
    assert reader.levels == expected


# --- records that this broker does not serve

QUOTA = ClientQuotaRecord(
    entity=[EntityData(entity_type="user", entity_name="a")], key="k", value=1.0, remove=False
)
CREDENTIAL = UserScramCredentialRecord(
    name="a", mechanism=1, salt=b"", stored_key=b"", server_key=b"", iterations=4096
)
TOKEN = DelegationTokenRecord(
    owner="a",
    requester="a",
    renewers=(),
    issue_timestamp=0,
    max_timestamp=0,
    expiration_timestamp=0,
    token_id="t",
)


@pytest.mark.parametrize(
    ("added", "removed", "name"),
    [
        (QUOTA, QUOTA.replace(remove=True), "client quotas"),
        (CREDENTIAL, RemoveUserScramCredentialRecord(name="a", mechanism=1), "SCRAM credentials"),
        (TOKEN, RemoveDelegationTokenRecord(token_id="t"), "delegation tokens"),
    ],
)
def test_a_restriction_is_a_reason_to_refuse_until_it_is_removed(
    added: Message, removed: Message, name: str
) -> None:
    reader = Reader()
    first, second, third = batches_of([added], [added], [removed])
    reader.read(first)
    reader.read(second)
    assert reader.unserved.reason is not None
    assert f"{name} (number: 1)" in reader.unserved.reason
    reader.read(third)
    assert reader.unserved.reason is None


def test_every_kind_of_restriction_is_counted() -> None:
    acl = AccessControlEntryRecord(
        id=b"1" * 16,
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    reader = Reader()
    reader.read(*batches_of([acl, acl.replace(id=b"2" * 16), QUOTA]))
    assert reader.unserved.reason is not None
    assert "ACLs (number: 2), client quotas (number: 1)" in reader.unserved.reason
