"""Consumers with read_committed skip the batches of aborted transactions."""

from pykbroker.client.consumer import AbortedProducers
from pykbroker_protocol.messages.fetch import AbortedTransaction, PartitionData
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch


def transactional(base_offset: int, producer_id: int) -> RecordBatch:
    builder = BatchBuilder(base_offset=base_offset, producer_id=producer_id, is_transactional=True)
    builder.append(0, None, b"")
    return RecordBatch.parse(builder.build())


def abort_marker(base_offset: int, producer_id: int) -> RecordBatch:
    marker = EndTransactionMarker(is_commit=False, coordinator_epoch=0)
    return RecordBatch.parse(
        marker_batch(
            marker,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=0,
            base_offset=base_offset,
        )
    )


def data_with(*transactions: AbortedTransaction) -> PartitionData:
    return PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=9,
        aborted_transactions=transactions,
        records=None,
    )


def test_batches_of_an_aborted_transaction_are_skipped_up_to_its_marker() -> None:
    aborted = AbortedProducers(data_with(AbortedTransaction(producer_id=1, first_offset=2)))
    batches = [
        transactional(0, 1),
        transactional(2, 1),
        transactional(3, 2),
        abort_marker(4, 1),
        transactional(5, 1),
    ]
    assert [aborted.contain(batch) for batch in batches] == [False, True, False, False, False]


def test_without_aborted_transactions_no_batch_is_skipped() -> None:
    assert not AbortedProducers(data_with()).contain(transactional(0, 1))
