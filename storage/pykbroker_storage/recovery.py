"""Opens the files of a log: without a scan after a clean shutdown, with recovery after a crash."""

import logging
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_scan import CorruptLog, FlushedDataLost
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from pykbroker_storage.mapped_file import OpenFiles
from pykbroker_storage.partition_cleanup import clean_up
from pykbroker_storage.partition_files import (
    load_leader_epochs,
    load_producers,
    save_leader_epochs,
)
from pykbroker_storage.producer_state import ProducerStates
from pykbroker_storage.segment import Segment
from pykbroker_storage.segment_factory import create_segment, open_segment
from pykbroker_storage.transaction_index_checksums import TransactionIndexChecksums
from pykbroker_storage.verification import Corruption, find_valid_batch, verify_batches

logger = logging.getLogger(__name__)


class Gap(NamedTuple):
    """Offsets without a batch between the end of a segment and the base offset of the next."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    directory: str
    open_files: OpenFiles
    segments: list[Segment]  # at least one; the last is active
    log_start_offset: int
    recovery_point: int
    leader_epochs: LeaderEpochs
    producers: ProducerStates
    was_changed: bool  # closing the log has something to write


def load(
    directory: str,
    *,
    configuration: LogConfiguration,
    open_files: OpenFiles,
    recovery_point: int,
    log_start_offset: int,
    was_clean: bool,
    now_ms: int,
) -> LoadedLog:
    filesystem = open_files.filesystem
    checksums = TransactionIndexChecksums(filesystem, directory)
    segments = _find_segments(directory, open_files, checksums)
    epochs = load_leader_epochs(filesystem, directory)
    if not epochs.entries() and any(segment.size_bytes for segment in segments):
        # A power loss can leave the file empty. Every batch has its epoch, so all are read.
        logger.warning(
            "%s: %s is missing or empty; verifying every batch to rebuild it",
            directory,
            LEADER_EPOCH_FILE,
        )
        recovery_point, was_clean = (0, False)
    is_intact = was_clean and bool(segments) and _find_end(segments[-1])
    aborted_from = None
    if segments and not is_intact:
        aborted_from = _check_segments(directory, segments, recovery_point, epochs, configuration)
    if configuration.forbids_data_loss:
        _require_contiguous(directory, segments, recovery_point)
    if segments and segments[-1].next_offset < log_start_offset:
        _remove_all(segments, log_start_offset)
    if not segments:
        segments.append(create_segment(directory, log_start_offset, open_files, checksums, now_ms))
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(segments[-1].next_offset)
    epochs.truncate_from_start(log_start_offset)
    if not is_intact and epochs.entries():
        save_leader_epochs(filesystem, directory, epochs)
    return LoadedLog(
        directory=directory,
        open_files=open_files,
        segments=segments,
        log_start_offset=log_start_offset,
        recovery_point=min(recovery_point, segments[-1].next_offset),
        leader_epochs=epochs,
        producers=load_producers(filesystem, directory, segments, aborted_from=aborted_from),
        was_changed=not is_intact,
    )


def _find_segments(
    directory: str, open_files: OpenFiles, checksums: TransactionIndexChecksums
) -> list[Segment]:
    base_offsets = clean_up(open_files.filesystem, directory)
    segments = [open_segment(directory, it, open_files, checksums) for it in base_offsets]
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
        segment.is_sealed = True
    return segments


def _find_end(active: Segment) -> bool:
    """Finds the log end after a clean shutdown; returns False if the segment is corrupt."""
    try:
        active.find_end()
    except (CorruptLog, CorruptBatch) as problem:
        logger.warning(
            "%s: corrupt after a clean shutdown (%s); verifying the whole segment",
            active.file.path,
            problem,
        )
        return False
    return True


def _check_segments(
    directory: str,
    segments: list[Segment],
    recovery_point: int,
    epochs: LeaderEpochs,
    configuration: LogConfiguration,
) -> int | None:
    """Verifies the segments above the recovery point; truncates each at its first corrupt batch.

    Missing offsets are allowed, because compaction may have run at any earlier time. Later
    segments with batches are therefore kept, except in a replicated log after corruption, or after
    a gap if it is not compacted: it would otherwise count as complete, and could lead without the
    missing records.

    Returns the offset from which transaction indexes must be rebuilt, or None if no verified
    segment has a marker.
    """
    aborted_from = None
    checked = []
    for segment, following in zip_longest(segments, segments[1:]):
        if following is not None and following.base_offset <= recovery_point:
            continue
        checked.append(segment)
        corruption, has_markers = check_and_index(
            segment, epochs, configuration.index_interval_bytes
        )
        if aborted_from is None and has_markers:
            aborted_from = segment.base_offset
        if corruption is not None:
            if configuration.forbids_data_loss:
                _require_torn_end(segment, segments[-1], corruption, recovery_point)
            _truncate(segment, corruption)
            if following is not None and configuration.ends_at_gaps:
                _remove_later(segments, segments.index(segment) + 1, segment.next_offset)
                break
        if following is not None:
            segment.finish()
            segment.seal()
    if configuration.ends_at_gaps and not configuration.is_compacted:
        _remove_after_gap(segments, recovery_point)
    if not configuration.forbids_data_loss:
        _remove_empty(segments, recovery_point)
    segments[-1].unseal()
    _log_gaps(directory, [it for it in checked if it in segments], configuration)
    return aborted_from


def _require_torn_end(
    segment: Segment, last: Segment, corruption: Corruption, recovery_point: int
) -> None:
    """Raises `FlushedDataLost` unless only a torn end, which was never flushed, is corrupt."""
    if segment.next_offset < recovery_point:
        evidence = f"offsets up to {recovery_point} were flushed"
    elif segment is not last:
        evidence = f"a later segment exists ({last.file.path})"
    elif (valid := find_valid_batch(segment, corruption.position)) is not None:
        evidence = f"a valid batch follows at position {valid}"
    else:
        return
    raise FlushedDataLost(
        f"{segment.file.path}: corrupt at position {corruption.position} "
        f"({corruption.reason}), but {evidence}"
    )


def _require_contiguous(directory: str, segments: Sequence[Segment], recovery_point: int) -> None:
    for segment, following in pairwise(segments):
        if segment.next_offset != following.base_offset:
            raise FlushedDataLost(
                f"{directory}: offsets {segment.next_offset} to {following.base_offset - 1} "
                "are missing"
            )
    if (end := segments[-1].next_offset if segments else 0) < recovery_point:
        raise FlushedDataLost(
            f"{directory}: log ends at {end}, but offsets up to {recovery_point} were flushed"
        )


def _remove_after_gap(segments: list[Segment], recovery_point: int) -> None:
    """Removes the segments after the first missing offset above the recovery point."""
    for position, (segment, following) in enumerate(pairwise(segments), 1):
        end = segment.next_offset if segment.size_bytes else segment.base_offset
        if end >= following.base_offset or following.base_offset <= recovery_point:
            continue
        _remove_later(segments, position, end)
        segment.next_offset = end
        return


def _remove_later(segments: list[Segment], position: int, end_offset: int) -> None:
    """Removes the segments from a position on; the records before it end at `end_offset`."""
    following = segments[position]
    logger.warning(
        "%s: offsets %d to %d are missing (power loss or corruption); removed this segment and "
        "%d more; the leader has their records",
        following.file.path,
        end_offset,
        following.base_offset - 1,
        len(segments) - position - 1,
    )
    for later in segments[position:]:
        later.remove()
    del segments[position:]


def _remove_empty(segments: list[Segment], recovery_point: int) -> None:
    """Removes empty segments above a gap, which a power loss leaves if it loses file contents.

    The log then ends after its last record; otherwise consumers would wait below an end that they
    cannot reach. Two empty segments stay: a last one that continues the log, and those up to the
    recovery point, because all records below it were flushed and only compaction leaves gaps there.
    """
    kept = segments[:1]
    for segment in segments[1:]:
        end = kept[-1].next_offset
        continues_log = segment is segments[-1] and end == segment.base_offset
        if segment.size_bytes or continues_log or segment.base_offset <= recovery_point:
            kept.append(segment)
            continue
        segment.remove()
    if removed := [segment for segment in segments if segment not in kept]:
        logger.warning(
            "%s: empty segment after missing offsets (power loss); removed it and %d more; the log "
            "ends at offset %d",
            removed[0].file.path,
            len(removed) - 1,
            kept[-1].next_offset,
        )
    segments[:] = kept


def _log_gaps(directory: str, segments: Sequence[Segment], configuration: LogConfiguration) -> None:
    """Logs gaps between segments: a power loss can lose records and keep a later segment."""
    gaps = []
    for segment, following in pairwise(segments):
        if segment.next_offset < following.base_offset:
            gaps.append(Gap(segment.next_offset, following.base_offset))
        elif segment.next_offset > following.base_offset:
            _log_overlap(segment, following)
    if gaps and not configuration.is_compacted:
        logger.warning(
            "%s: offsets missing at the ends of segments: %d, the first is %d; later segments "
            "are kept. Compaction leaves such gaps; in a log that was never compacted, records "
            "were lost by a power loss or corruption",
            directory,
            sum(gap.end - gap.start for gap in gaps),
            gaps[0].start,
        )


def _log_overlap(segment: Segment, following: Segment) -> None:
    """Logs overlapping offsets. Both segments are otherwise valid, so neither is truncated."""
    logger.warning(
        "%s: segment reaches offset %d, but the next one starts at %d; one has wrong offsets; both "
        "are kept",
        segment.file.path,
        segment.next_offset - 1,
        following.base_offset,
    )


def check_and_index(
    segment: Segment, epochs: LeaderEpochs, index_interval_bytes: int
) -> tuple[Corruption | None, bool]:
    """Verifies every batch, fills the indexes and adds new leader epochs.

    Returns the first corrupt batch, and whether the segment has control batches.
    """
    has_markers = False

    def index(batch: RecordBatch, position: int) -> None:
        nonlocal has_markers
        has_markers |= batch.is_control
        if 0 <= batch.partition_leader_epoch != epochs.latest_epoch:
            epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        segment.index_batch(batch, position, index_interval_bytes)
        segment.next_offset = batch.next_offset

    segment.clear_transaction_index()
    segment.reset_indexes()
    corruption = verify_batches(segment, segment.size_bytes, index)
    if corruption is not None and corruption.is_found_late:
        segment.reset_indexes()
        verify_batches(segment, corruption.position, index)
    segment.mark_verified()  # the caller removes the corrupt part
    return corruption, has_markers


def _truncate(segment: Segment, corruption: Corruption) -> None:
    logger.warning(
        "%s: %s; segment truncated at position %d, %d bytes removed; it now ends at offset %d",
        segment.file.path,
        corruption.reason,
        corruption.position,
        segment.size_bytes - corruption.position,
        segment.next_offset,
    )
    segment.unseal()
    segment.file.truncate(corruption.position)


def _remove_all(segments: list[Segment], log_start_offset: int) -> None:
    logger.warning(
        "%s: log ends at offset %d, below its log start offset %d; all segments are removed and "
        "the log continues at its start offset",
        segments[-1].file.path,
        segments[-1].next_offset,
        log_start_offset,
    )
    for segment in segments:
        segment.remove()
    segments.clear()
