"""Size and checksum of every `.txnindex` of a log, in a file of their own.

Kafka's format has no checksum. A damaged or missing index would show aborted records to readers
of committed ones, so an index that is not what was written is rebuilt from the log.
"""

from typing import NamedTuple

from pykbroker_protocol.records.crc32c import checksum
from pykbroker_storage.checkpoint import (
    MalformedCheckpoint,
    decode_lines,
    encode_lines,
    fields_of,
    number_in,
)
from pykbroker_storage.filesystem import FileSystem, read_file, write_file
from pykbroker_storage.transaction_index import TRANSACTION_INDEX_SUFFIX, MalformedTransactionIndex

CHECKSUMS_FILE = "aborted-index-checkpoint"


class Sum(NamedTuple):
    size_bytes: int
    crc: int


class TransactionIndexChecksums:
    """Those of one log; the file is read when an index is, and written when an index is complete.

    A log without the file is of Apache Kafka or an earlier release: its indexes are trusted.
    """

    __slots__ = ("_directory", "_filesystem", "_is_saved", "_sums")

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._sums: dict[int, Sum] | None = None  # by base offset; None until needed
        self._is_saved = True

    def check(self, base_offset: int, index: bytes) -> None:
        """Raises `MalformedTransactionIndex` if these are not the bytes that were written."""
        found = _sum_of(index) if index else None
        if found != self._known().get(base_offset):
            raise MalformedTransactionIndex("size or checksum differ from what was written")

    def note(self, base_offset: int, index: bytes) -> None:
        """The index of a segment is complete, for now."""
        sums = self._known_or_none()
        if index:
            found = _sum_of(index)
            self._is_saved = self._is_saved and sums.get(base_offset) == found
            sums[base_offset] = found
        else:
            self.forget(base_offset)
        if not self._is_saved:
            self._save(sums)

    def forget(self, base_offset: int) -> None:
        """The segment, or its index, is gone. Writes nothing, so it works on a full disk."""
        if self._sums is not None and self._sums.pop(base_offset, None) is not None:
            self._is_saved = False

    @property
    def last_base_offset(self) -> int:
        """Of the last segment with aborted transactions; -1 without any."""
        return max(self._known(), default=-1)

    def _known(self) -> dict[int, Sum]:
        """Raises `MalformedTransactionIndex` if the file is damaged: all indexes are in doubt."""
        if self._sums is None:
            try:
                self._sums = _decode(read_file(self._filesystem, self._path))
            except FileNotFoundError:
                self._sums = self._of_files()
                self._is_saved = not self._sums
            except MalformedCheckpoint as problem:
                raise MalformedTransactionIndex(f"{self._path}: {problem}") from problem
        return self._sums

    def _known_or_none(self) -> dict[int, Sum]:
        """As `_known`; a damaged file counts as empty and is replaced at the next save."""
        try:
            return self._known()
        except MalformedTransactionIndex:
            self._sums = {}
            self._is_saved = False
            return self._sums

    def _of_files(self) -> dict[int, Sum]:
        sums = {}
        for name in self._filesystem.list_directory(self._directory):
            stem = name.removesuffix(TRANSACTION_INDEX_SUFFIX)
            if name.endswith(TRANSACTION_INDEX_SUFFIX) and stem.isdecimal():
                index = read_file(self._filesystem, f"{self._directory}/{name}")
                if index:
                    sums[int(stem)] = _sum_of(index)
        return sums

    def _save(self, sums: dict[int, Sum]) -> None:
        """Not flushed: after a power cut that took it the indexes are rebuilt."""
        lines = (f"{base} {it.size_bytes} {it.crc}" for base, it in sorted(sums.items()))
        write_file(self._filesystem, f"{self._path}.tmp", encode_lines(lines))
        self._filesystem.rename(f"{self._path}.tmp", self._path)
        self._is_saved = True

    @property
    def _path(self) -> str:
        return f"{self._directory}/{CHECKSUMS_FILE}"


def _sum_of(index: bytes) -> Sum:
    return Sum(len(index), checksum(index))


def _decode(data: bytes) -> dict[int, Sum]:
    if not data:
        raise MalformedCheckpoint("the file is empty")
    sums = {}
    for number, line in decode_lines(data):
        base_offset, size_bytes, crc = (number_in(it, number) for it in fields_of(line, number, 3))
        sums[base_offset] = Sum(size_bytes, crc)
    return sums
