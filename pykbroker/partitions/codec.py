"""Most topics keep the producer's bytes; `compression.type` may ask for another codec."""

from __future__ import annotations

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.contents import recompress, validate_contents

AS_PRODUCED = "producer"


def in_codec(batch: RecordBatch, compression_type: str) -> RecordBatch:
    """Raises `CorruptBatch` if the records have to be unpacked and cannot be read."""
    wanted = (
        Compression.NONE
        if compression_type == "uncompressed"
        else Compression[compression_type.upper()]
    )
    if batch.compression is wanted:
        return batch
    validate_contents(batch)
    return RecordBatch.parse(memoryview(bytearray(recompress(batch, wanted))))
