"""Most topics keep the producer's bytes; `compression.type` may ask for another codec."""

from __future__ import annotations

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.contents import recompress, validate_contents
from pykbroker_protocol.records.times import Pause, no_pause

AS_PRODUCED = "producer"
CODECS = {"uncompressed": Compression.NONE} | {
    it.name.lower(): it for it in Compression if it is not Compression.NONE
}
"""By the values of `compression.type`."""


def is_in_codec(codec: int, compression_type: str) -> bool:
    return compression_type == AS_PRODUCED or CODECS[compression_type] == codec


def in_codec(batch: RecordBatch, compression_type: str, pause: Pause = no_pause) -> RecordBatch:
    """Raises `CorruptBatch` if the records have to be unpacked and cannot be read."""
    wanted = CODECS[compression_type]
    if batch.compression is wanted:
        return batch
    payload = validate_contents(batch, pause=pause)
    return RecordBatch.parse(memoryview(bytearray(recompress(batch, wanted, payload))))
