"""Brings a log back from its directory: quickly after a clean end, batch by batch after a crash."""

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
from pykbroker_storage.partition_cleanup import tidy
from pykbroker_storage.partition_files import (
    load_leader_epochs,
    load_producers,
    save_leader_epochs,
)
from pykbroker_storage.producer_state import ProducerStates
from pykbroker_storage.segment import Segment
from pykbroker_storage.segment_factory import create_segment, open_segment
from pykbroker_storage.transaction_index_checksums import TransactionIndexChecksums
from pykbroker_storage.verification import Damage, find_whole_batch, walk

logger = logging.getLogger(__name__)


class Gap(NamedTuple):
    """Offsets without a batch, from the end of a segment to where the next one begins."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    directory: str
    open_files: OpenFiles
    segments: list[Segment]  # at least one; the last is written to
    log_start_offset: int
    recovery_point: int
    leader_epochs: LeaderEpochs
    producers: ProducerStates
    was_changed: bool  # closing has something to write


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
        # A power cut may leave the file empty. The batches know their epochs; read all of them.
        logger.warning("%s: %s is lost; every batch is checked", directory, LEADER_EPOCH_FILE)
        recovery_point, was_clean = (0, False)
    is_intact = was_clean and bool(segments) and _find_end(segments[-1])
    aborted_from = None
    if segments and not is_intact:
        aborted_from = _check_segments(directory, segments, recovery_point, epochs, configuration)
    if configuration.forbids_data_loss:
        _refuse_missing(directory, segments, recovery_point)
    if segments and segments[-1].next_offset < log_start_offset:
        _forget_all(segments, log_start_offset)
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
    base_offsets = tidy(open_files.filesystem, directory)
    segments = [open_segment(directory, it, open_files, checksums) for it in base_offsets]
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
        segment.is_sealed = True
    return segments


def _find_end(active: Segment) -> bool:
    """Whether the end is where a clean end leaves it."""
    try:
        active.find_end()
    except (CorruptLog, CorruptBatch) as problem:
        logger.warning("%s: ended cleanly, yet %s; it is checked whole", active.file.path, problem)
        return False
    return True


def _check_segments(
    directory: str,
    segments: list[Segment],
    recovery_point: int,
    epochs: LeaderEpochs,
    configuration: LogConfiguration,
) -> int | None:
    """Checks the segments that were not known to be durable; each ends before its first bad batch.

    Missing offsets are no damage: compaction leaves such gaps, and the log may have been
    compacted at any time before. So later segments that hold batches stay. Returns the offset
    from which the indexes of aborted transactions have to be rebuilt; None if there are none.
    """
    aborted_from = None
    checked = []
    for segment, following in zip_longest(segments, segments[1:]):
        if following is not None and following.base_offset <= recovery_point:
            continue
        checked.append(segment)
        damage, has_markers = check_and_index(segment, epochs, configuration.index_interval_bytes)
        if aborted_from is None and has_markers:
            aborted_from = segment.base_offset
        if damage is not None:
            if configuration.forbids_data_loss:
                _refuse_damage(segment, segments[-1], damage, recovery_point)
            _cut(segment, damage)
        if following is not None:
            segment.finish()
            segment.seal()
    if not configuration.forbids_data_loss:
        _remove_empty(segments, recovery_point)
    segments[-1].unseal()
    _tell_gaps(directory, [it for it in checked if it in segments], configuration)
    return aborted_from


def _refuse_damage(segment: Segment, last: Segment, damage: Damage, recovery_point: int) -> None:
    """Only a torn end, which was never flushed, may be cut."""
    if segment.next_offset < recovery_point:
        proof = f"offsets up to {recovery_point} were flushed"
    elif segment is not last:
        proof = f"{last.file.path} follows"
    elif (whole := find_whole_batch(segment, damage.position)) is not None:
        proof = f"a whole batch follows at position {whole}"
    else:
        return
    raise FlushedDataLost(
        f"{segment.file.path} is damaged at position {damage.position} ({damage.reason}), "
        f"and {proof}"
    )


def _refuse_missing(directory: str, segments: Sequence[Segment], recovery_point: int) -> None:
    for segment, following in pairwise(segments):
        if segment.next_offset != following.base_offset:
            raise FlushedDataLost(
                f"{directory}: offsets {segment.next_offset} to {following.base_offset - 1} "
                "are missing"
            )
    if (end := segments[-1].next_offset if segments else 0) < recovery_point:
        raise FlushedDataLost(
            f"{directory} ends at offset {end}, but offsets up to {recovery_point} were flushed"
        )


def _remove_empty(segments: list[Segment], recovery_point: int) -> None:
    """A power cut may leave files whose content, and whose predecessor's end, it has taken.

    Without them the log ends behind its last record; a consumer would wait at an end it cannot
    reach. An empty last segment stays where it continues the log. So does one at the recovery
    point: everything before it was flushed, and its gap comes from compaction.
    """
    kept = segments[:1]
    for segment in segments[1:]:
        end = kept[-1].next_offset
        is_wanted = segment is segments[-1] and end == segment.base_offset
        if segment.size_bytes or is_wanted or segment.base_offset <= recovery_point:
            kept.append(segment)
            continue
        segment.remove()
    if removed := [segment for segment in segments if segment not in kept]:
        logger.warning(
            "%s: empty segment behind missing offsets, as a power cut leaves it; removed, and %d "
            "more; the log ends at offset %d",
            removed[0].file.path,
            len(removed) - 1,
            kept[-1].next_offset,
        )
    segments[:] = kept


def _tell_gaps(
    directory: str, segments: Sequence[Segment], configuration: LogConfiguration
) -> None:
    """A power cut may keep a later segment and lose the end of the one before."""
    gaps = []
    for segment, following in pairwise(segments):
        if segment.next_offset < following.base_offset:
            gaps.append(Gap(segment.next_offset, following.base_offset))
        elif segment.next_offset > following.base_offset:
            _tell_overlap(segment, following)
    if gaps and not configuration.is_compacted:
        logger.warning(
            "%s: %d offsets are missing at the ends of segments, the first is %d; the segments "
            "behind them stay. Compaction leaves such gaps; in a log that was never compacted a "
            "power cut or damage has taken the records",
            directory,
            sum(gap.end - gap.start for gap in gaps),
            gaps[0].start,
        )


def _tell_overlap(segment: Segment, following: Segment) -> None:
    """Which of the two has the wrong offsets is unknown; both are sound otherwise."""
    logger.warning(
        "%s: reaches to offset %d, but the next segment begins at %d: an offset is wrong; "
        "nothing is cut",
        segment.file.path,
        segment.next_offset - 1,
        following.base_offset,
    )


def check_and_index(
    segment: Segment, epochs: LeaderEpochs, index_interval_bytes: int
) -> tuple[Damage | None, bool]:
    """Reads every batch, fills the indexes, notes new epochs.

    Returns the first bad batch, and whether there are markers of transactions.
    """
    has_markers = False

    def take(batch: RecordBatch, position: int) -> None:
        nonlocal has_markers
        has_markers |= batch.is_control
        if 0 <= batch.partition_leader_epoch != epochs.latest_epoch:
            epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        segment.account(batch, position, index_interval_bytes)
        segment.next_offset = batch.next_offset

    segment.clear_transaction_index()
    segment.begin_indexes()
    damage = walk(segment, segment.size_bytes, take)
    if damage is not None and damage.is_found_late:
        segment.begin_indexes()
        walk(segment, damage.position, take)
    segment.trust()  # what is damaged is cut
    return damage, has_markers


def _cut(segment: Segment, damage: Damage) -> None:
    logger.warning(
        "%s: %s; cut at position %d, %d bytes go; this segment now ends at offset %d",
        segment.file.path,
        damage.reason,
        damage.position,
        segment.size_bytes - damage.position,
        segment.next_offset,
    )
    segment.unseal()
    segment.file.truncate(damage.position)


def _forget_all(segments: list[Segment], log_start_offset: int) -> None:
    logger.warning(
        "%s: ends at %d, before the log's start offset %d; the log begins anew there",
        segments[-1].file.path,
        segments[-1].next_offset,
        log_start_offset,
    )
    for segment in segments:
        segment.remove()
    segments.clear()
