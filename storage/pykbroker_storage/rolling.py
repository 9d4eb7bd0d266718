"""When a log begins a new segment."""

from zlib import crc32

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.index import RELATIVE_OFFSET_MAX
from pykbroker_storage.segment import Segment


def is_roll_due(
    segment: Segment,
    configuration: LogConfiguration,
    records_bytes: int,
    last: RecordBatch,
    now_ms: int,
) -> bool:
    """Whether the batches up to `last` should be the first of a new segment.

    An empty one takes them however large they are, unless their offsets are too far from its
    base offset.
    """
    last_offset = last.base_offset + last.last_offset_delta
    if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return True
    size_bytes = segment.file.size_bytes
    if not size_bytes:
        return False
    if size_bytes + records_bytes > configuration.segment_bytes:
        return True
    if segment.indexes.is_full(configuration.segment_index_bytes):
        return True
    # Time runs as the records' timestamps say, without them as the clock says: so a replayed
    # past fills segments as it once did.
    first_ms = segment.first_timestamp_ms
    age_ms = now_ms - segment.created_ms if first_ms < 0 else last.max_timestamp - first_ms
    jitter_max_ms = configuration.segment_jitter_ms
    if jitter_max_ms:
        age_ms += _jitter_ms(segment, jitter_max_ms)
    return age_ms > configuration.segment_ms_max


def _jitter_ms(segment: Segment, jitter_max_ms: int) -> int:
    """Scattered over segments, so that not all roll at once, but the same each time asked."""
    return crc32(segment.file.path.encode()) % jitter_max_ms
