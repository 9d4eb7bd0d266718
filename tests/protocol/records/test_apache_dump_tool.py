"""The dump tool of Apache Kafka reads our batches."""

from pathlib import Path

import pytest

from compat.apache import ApacheTools
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch

NOW = 1_700_000_000_000


@pytest.mark.slow
def test_the_dump_tool_of_apache_kafka_reads_each_kind_of_batch(
    apache_tools: ApacheTools, tmp_path: Path
) -> None:
    stored = b""
    for compression in Compression:
        builder = BatchBuilder(
            compression=compression, base_offset=compression * 2, partition_leader_epoch=0
        )
        builder.append(NOW, b"truck", f"position {compression}".encode(), [("speed", b"80")])
        builder.append(NOW + 1, None, b"x" * 100_000)
        stored += builder.build()
    stored += marker_batch(
        EndTransactionMarker(is_commit=False, coordinator_epoch=3),
        producer_id=5,
        producer_epoch=1,
        timestamp_ms=NOW,
        base_offset=10,
        partition_leader_epoch=0,
    )
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(stored)

    dumped = apache_tools.dump_log(log, options=["--print-data-log", "--deep-iteration"])

    assert dumped.count("isvalid: true") == len(Compression) + 1
    for compression in Compression:
        assert f"compresscodec: {compression.name.lower()}" in dumped
        assert f"headerKeys: [speed] key: truck payload: position {compression}" in dumped
    assert "endTxnMarker: ABORT coordinatorEpoch: 3" in dumped
