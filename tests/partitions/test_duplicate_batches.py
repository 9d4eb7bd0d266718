"""A batch that an idempotent producer resends keeps its offset."""

import pytest

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.log import AppendResult
from tests.partitions.local_partitions import LocalPartitions
from tests.storage.batches import NOW, batch_bytes


@pytest.mark.parametrize("producer_id", [0, 1, 2**63 - 1])
def test_a_resent_batch_is_not_appended_again(local: LocalPartitions, producer_id: int) -> None:
    partition = local.add("trucks", cleanup_policy="delete")

    def written(sequence: int) -> int:
        records = batch_bytes([b"a", b"b"], producer_id=producer_id, base_sequence=sequence)
        outcome = partition.leader.write_once(RecordBatch.parse(memoryview(records)), NOW)
        assert isinstance(outcome, AppendResult)
        return outcome.first_offset

    assert [written(it) for it in (0, 0, 2, 0, 2)] == [0, 0, 2, 0, 2]
    assert partition.log.log_end_offset == 4


def test_every_batch_without_a_producer_id_is_appended(local: LocalPartitions) -> None:
    partition = local.add("trucks", cleanup_policy="delete")
    for _ in range(2):
        records = batch_bytes([b"a", b"b"], producer_id=-1)
        partition.leader.write_once(RecordBatch.parse(memoryview(records)), NOW)
    assert partition.log.log_end_offset == 4
