"""Producer states after a truncation, without reading the log again for each producer.

Only producers with batches in the removed part change. Of an idempotent producer the last batches
before it are enough; of a transactional one all batches since the snapshot are applied. Headers are
read without decoding the others: a segment can have 100,000 batches.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from struct import Struct

from pykbroker_protocol.records.batch import (
    CONTROL_FLAG,
    NO_PRODUCER_ID,
    PREFIX_BYTES,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from pykbroker_storage.producer import BATCHES_KEPT
from pykbroker_storage.producer_state import ProducerStates
from pykbroker_storage.segment import Segment

REMOVED_BYTES_MAX = 16 * 1024 * 1024
"""A truncation that removes more reads the producers of the whole log again."""

# length, attributes, producer id
_HEADER = Struct(">8xi9xh20xq")


def producers_in(segments: Iterable[Segment], offset: int) -> set[int] | None:
    """Returns the producers of batches at `offset` or above; None if there are too many bytes."""
    found: set[int] = set()
    left = REMOVED_BYTES_MAX
    for segment in segments:
        position = segment.position_of(offset)
        left -= segment.size_bytes - position
        if left < 0:
            return None
        for _, _, producer_id in _headers(segment, position):
            found.add(producer_id)
    found.discard(NO_PRODUCER_ID)
    return found


def states_after_truncation(
    current: ProducerStates,
    snapshot: ProducerStates,
    segments: Sequence[Segment],
    snapshot_offset: int,
    removed: set[int],
) -> ProducerStates:
    """Returns the states of a truncated log, whose last segment ends where it was truncated.

    `removed` are the producers of the removed batches; `snapshot` has the states at an offset.
    """
    end_offset = segments[-1].next_offset
    states = current.without(removed, end_offset)
    states.take(removed, snapshot)
    recent: dict[int, deque[tuple[memoryview, int]]] = {}
    """Buffer and position of the last batches of each producer."""
    for segment in segments:
        if segment.next_offset <= snapshot_offset:
            continue
        data, start = segment.file.view_all(), segment.position_of(snapshot_offset)
        for position, attributes, producer_id in _headers(segment, start):
            if producer_id not in removed:
                continue
            waiting = recent.get(producer_id)
            if waiting is None:
                waiting = recent[producer_id] = deque(maxlen=BATCHES_KEPT)
            waiting.append((data, position))
            if attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG):
                while waiting:
                    states.update(RecordBatch.parse(*waiting.popleft()))
    for waiting in recent.values():
        for buffer, position in waiting:
            states.update(RecordBatch.parse(buffer, position))
    states.sort_transactions()
    return states


def _headers(segment: Segment, position: int) -> Iterable[tuple[int, int, int]]:
    """Yields position, attributes and producer id of each batch from a position on."""
    data, end = segment.file.view_all(), segment.size_bytes
    segment.file.make_readable(position, end)
    unpack = _HEADER.unpack_from
    while position < end:
        length, attributes, producer_id = unpack(data, position)
        yield position, attributes, producer_id
        position += length + PREFIX_BYTES
