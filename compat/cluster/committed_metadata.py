"""The metadata of a cluster, read from the log on the controller's disk.

This state is independent of the brokers under test, which can be paused or have old metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.generators import run_to_end
from pykbroker.metadata.batches import UnfinishedTransaction, committed_records, records_of
from pykbroker.metadata.image import ClusterImage
from pykbroker.metadata.replay import replay
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch

if TYPE_CHECKING:
    from pathlib import Path


class CommittedMetadata:
    """Replays a metadata log that another process appends to; a quorum of one commits at once."""

    def __init__(self, log: Path, *, cluster_id: str) -> None:
        self._log = log
        self._position = 0
        self._image = ClusterImage(cluster_id=cluster_id)

    def image(self) -> ClusterImage:
        """Returns the image after all complete batches. It changes with the next call."""
        with self._log.open("rb") as log:
            log.seek(self._position)
            appended = log.read()
        batches = _complete_batches(appended)
        if not batches:
            return self._image
        try:
            records = [*committed_records(it for batch in batches for it in records_of(batch))]
        except UnfinishedTransaction:
            return self._image  # the transaction is read again with its end
        delta = run_to_end(replay(self._image, records, last_offset=batches[-1].next_offset - 1))
        self._image.apply(delta)
        self._position += sum(batch.size_bytes for batch in batches)
        return self._image


def _complete_batches(buffer: bytes) -> list[RecordBatch]:
    batches = []
    position = 0
    while position < len(buffer):
        try:
            batch = RecordBatch.parse(buffer, position)
        except CorruptBatch:
            break  # its end is not written yet
        if not batch.is_crc_valid():
            break
        batches.append(batch)
        position += batch.size_bytes
    return batches
