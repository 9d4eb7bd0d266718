"""Size and checksum of every `.txnindex` file of a log, in a checkpoint file.

Kafka's format has no checksum. A corrupt or missing index would make aborted records visible to
read_committed consumers, so an index with another size or checksum is rebuilt from the log.
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


class IndexChecksum(NamedTuple):
    size_bytes: int
    crc: int


class TransactionIndexChecksums:
    """The checksums of one log, loaded on first use and saved when an index is complete.

    A log without the file was written by Apache Kafka or an earlier release: its indexes are
    trusted.
    """

    __slots__ = ("_directory", "_filesystem", "_is_saved", "_sums")

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._sums: dict[int, IndexChecksum] | None = None  # by base offset; None until needed
        self._is_saved = True

    def check(self, base_offset: int, index: bytes) -> None:
        """Raises `MalformedTransactionIndex` if size or checksum of the index differ."""
        found = _checksum_of(index) if index else None
        if found != self._known().get(base_offset):
            raise MalformedTransactionIndex("size or checksum differ from the recorded ones")

    def record(self, base_offset: int, index: bytes) -> None:
        """Records the checksum of a segment's index and saves the file if it changed."""
        sums = self._known_or_empty()
        if index:
            found = _checksum_of(index)
            self._is_saved = self._is_saved and sums.get(base_offset) == found
            sums[base_offset] = found
        else:
            self.remove(base_offset)
        if not self._is_saved:
            self._save(sums)

    def remove(self, base_offset: int) -> None:
        """Drops the entry of a segment. Writes nothing, so that it works on a full disk."""
        if self._sums is not None and self._sums.pop(base_offset, None) is not None:
            self._is_saved = False

    @property
    def last_base_offset(self) -> int:
        """Base offset of the last segment with aborted transactions; -1 without any."""
        return max(self._known(), default=-1)

    def _known(self) -> dict[int, IndexChecksum]:
        """Raises `MalformedTransactionIndex` if the file is corrupt: no index can be trusted."""
        if self._sums is None:
            try:
                self._sums = _decode(read_file(self._filesystem, self._path))
            except FileNotFoundError:
                self._sums = self._from_index_files()
                self._is_saved = not self._sums
            except MalformedCheckpoint as problem:
                raise MalformedTransactionIndex(f"{self._path}: {problem}") from problem
        return self._sums

    def _known_or_empty(self) -> dict[int, IndexChecksum]:
        """Like `_known`; a corrupt file counts as empty and is replaced by the next save."""
        try:
            return self._known()
        except MalformedTransactionIndex:
            self._sums = {}
            self._is_saved = False
            return self._sums

    def _from_index_files(self) -> dict[int, IndexChecksum]:
        sums = {}
        for name in self._filesystem.list_directory(self._directory):
            stem = name.removesuffix(TRANSACTION_INDEX_SUFFIX)
            if name.endswith(TRANSACTION_INDEX_SUFFIX) and stem.isdecimal():
                index = read_file(self._filesystem, f"{self._directory}/{name}")
                if index:
                    sums[int(stem)] = _checksum_of(index)
        return sums

    def _save(self, sums: dict[int, IndexChecksum]) -> None:
        """Writes the file without a flush: if the file is lost, the indexes are rebuilt."""
        lines = (f"{base} {it.size_bytes} {it.crc}" for base, it in sorted(sums.items()))
        write_file(self._filesystem, f"{self._path}.tmp", encode_lines(lines))
        self._filesystem.rename(f"{self._path}.tmp", self._path)
        self._is_saved = True

    @property
    def _path(self) -> str:
        return f"{self._directory}/{CHECKSUMS_FILE}"


def _checksum_of(index: bytes) -> IndexChecksum:
    return IndexChecksum(len(index), checksum(index))


def _decode(data: bytes) -> dict[int, IndexChecksum]:
    if not data:
        raise MalformedCheckpoint("the file is empty")
    sums = {}
    for number, line in decode_lines(data):
        base_offset, size_bytes, crc = (number_in(it, number) for it in fields_of(line, number, 3))
        sums[base_offset] = IndexChecksum(size_bytes, crc)
    return sums
