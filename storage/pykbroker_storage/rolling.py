"""When a log begins a new segment."""

from collections.abc import Sequence
from zlib import crc32

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.index import RELATIVE_OFFSET_MAX
from pykbroker_storage.segment import NO_TIMESTAMP, Segment


def is_roll_due(
    segment: Segment,
    configuration: LogConfiguration,
    records_bytes: int,
    batches: Sequence[RecordBatch],
    now_ms: int,
) -> bool:
    """Whether these batches should be the first of a new segment.

    An empty one takes them however large they are, unless their offsets are too far from its
    base offset.
    """
    if batches[-1].last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return True
    size_bytes = segment.file.size_bytes
    if not size_bytes:
        return False
    return (
        size_bytes + records_bytes > configuration.segment_bytes
        or _is_old(segment, configuration, batches[-1].max_timestamp, now_ms)
        or segment.indexes.is_full(configuration.segment_index_bytes)
    )


def _is_old(
    segment: Segment, configuration: LogConfiguration, timestamp_ms: int, now_ms: int
) -> bool:
    """Time runs as the records' timestamps say, without them as the clock says.

    So a replayed past fills segments as it once did.
    """
    first_ms = segment.first_timestamp_ms
    age_ms = now_ms - segment.created_ms if first_ms == NO_TIMESTAMP else timestamp_ms - first_ms
    segment_ms = configuration.segment_ms_max
    if age_ms <= segment_ms - configuration.segment_jitter_ms:
        return False
    return age_ms > segment_ms - _jitter_ms(segment, configuration.segment_jitter_ms)


def _jitter_ms(segment: Segment, jitter_max_ms: int) -> int:
    """Scattered over segments, so that not all roll at once, but the same each time asked."""
    return crc32(segment.file.path.encode()) % jitter_max_ms if jitter_max_ms > 0 else 0
