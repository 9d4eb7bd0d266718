"""Creates `Segment` objects: for a new file, an existing file or the output of compaction."""

from collections.abc import Sequence

from pykbroker_storage.filesystem import write_file
from pykbroker_storage.mapped_file import OpenFiles
from pykbroker_storage.segment import CompactedBytes, Segment
from pykbroker_storage.transaction_index_checksums import TransactionIndexChecksums


def create_segment(
    directory: str,
    base_offset: int,
    open_files: OpenFiles,
    checksums: TransactionIndexChecksums,
    now_ms: int,
) -> Segment:
    segment = Segment(
        directory,
        base_offset,
        size_bytes=0,
        created_ms=now_ms,
        open_files=open_files,
        checksums=checksums,
    )
    write_file(open_files.filesystem, segment.file.path, b"")
    return segment


def compacted_segment(
    directory: str, sources: Sequence[Segment], compacted: CompactedBytes, open_files: OpenFiles
) -> Segment:
    """Returns the segment that replaces several segments after compaction."""
    segment = Segment(
        directory,
        sources[0].base_offset,
        size_bytes=compacted.size_bytes,
        created_ms=sources[-1].created_ms,
        open_files=open_files,
        checksums=sources[0].checksums,
    )
    segment.next_offset = sources[-1].next_offset
    segment.max_timestamp_ms = compacted.max_timestamp_ms
    segment.max_timestamp_offset = compacted.max_timestamp_offset
    segment.is_sealed = True
    return segment


def open_segment(
    directory: str, base_offset: int, open_files: OpenFiles, checksums: TransactionIndexChecksums
) -> Segment:
    """Opens an existing segment, whose end and content are not verified yet."""
    path = f"{directory}/{base_offset:020d}.log"
    size_bytes, modified_ms = open_files.filesystem.size_and_age(path)
    segment = Segment(
        directory,
        base_offset,
        size_bytes=size_bytes,
        created_ms=modified_ms,
        open_files=open_files,
        checksums=checksums,
    )
    segment.verify_lazily()
    return segment
