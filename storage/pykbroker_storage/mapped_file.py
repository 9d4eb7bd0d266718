"""A file that grows by one write at its end, its bytes read through a memory map."""

from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING

from pykbroker_storage.filesystem import FileSystem, directory_of, read_exactly, write_fully
from pykbroker_storage.segment_indexes import RecentIndexes

if TYPE_CHECKING:
    import mmap

# Beyond the mapped range a read up to this size is copied: cheaper than mapping anew.
SMALL_READ_BYTES = 64 * 1024
COPY_BYTES = 1024 * 1024
CLOSED = -1
# Sealed segments whose indexes stay in memory; one of 1 GiB needs up to 5 MB.
INDEXES_MAX = 32


class OpenFiles:
    """The files held open, at most `files_max`; who has not been used lately goes first.

    An open file costs one descriptor, a mapped one two. Whoever is let go opens again on its
    next use, and views given out stay good: a map lives as long as its last view.
    """

    __slots__ = ("_files", "_files_max", "filesystem", "recent_indexes")

    def __init__(self, filesystem: FileSystem, files_max: int) -> None:
        assert files_max > 0
        self.filesystem = filesystem
        self.recent_indexes = RecentIndexes(INDEXES_MAX)
        self._files_max = files_max
        self._files: OrderedDict[MappedFile, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def admit(self, file: "MappedFile") -> None:
        while len(self._files) >= self._files_max:
            candidate, _ = self._files.popitem(last=False)
            if candidate.recently_used:  # a second chance
                candidate.recently_used = False
                self._files[candidate] = None
            else:
                candidate.let_go()
        self._files[file] = None

    def forget(self, file: "MappedFile") -> None:
        self._files.pop(file, None)


class MappedFile:
    """Single writer. `size_bytes` is the valid end: no view reaches beyond it."""

    __slots__ = (
        "_descriptor",
        "_map",
        "_map_view",
        "_mapped_bytes",
        "_open_files",
        "path",
        "recently_used",
        "size_bytes",
    )

    def __init__(self, path: str, size_bytes: int, open_files: OpenFiles) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.recently_used = False
        self._open_files = open_files
        self._descriptor = CLOSED
        self._map: mmap.mmap | None = None
        self._map_view: memoryview | None = None
        self._mapped_bytes = 0

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Writes at the end in one system call; returns where. A failure leaves all as it was."""
        descriptor = self._descriptor
        if descriptor == CLOSED:
            descriptor = self._open()
        position = self.size_bytes
        try:
            write_fully(self._open_files.filesystem, descriptor, data, position)
        except OSError:
            # Nothing was mapped or given out beyond the valid end, so cutting there is safe;
            # should even that fail, the next append writes over it and `close` cuts the rest.
            with suppress(OSError):
                self._open_files.filesystem.ftruncate(descriptor, position)
            raise
        self.size_bytes = position + len(data)
        self.recently_used = True
        return position

    def view(self, start: int, end: int) -> memoryview:
        """The bytes from `start` to `end`, not copied unless few and newly written."""
        assert 0 <= start <= end <= self.size_bytes
        self.recently_used = True
        if end > self._mapped_bytes:
            if end - start <= SMALL_READ_BYTES:
                return memoryview(self.read(start, end))
            self._map_all()
        assert self._map_view is not None
        return self._map_view[start:end]

    def read(self, start: int, end: int) -> bytes:
        """A copy of the bytes from `start` to `end`."""
        descriptor = self._descriptor
        if descriptor == CLOSED:
            descriptor = self._open()
        data = self._open_files.filesystem.pread(descriptor, end - start, start)
        if len(data) != end - start:
            return read_exactly(self._open_files.filesystem, descriptor, end - start, start)
        return data

    def view_all(self) -> memoryview:
        """The whole file, for a scan: let go of the view before truncating."""
        return self.view(0, self.size_bytes) if self.size_bytes else memoryview(b"")

    def truncate(self, size_bytes: int) -> None:
        """Cuts the end off.

        Touching a mapped page beyond the end of its file would kill the process: if somebody
        still looks at what goes, the file is replaced by a shorter copy.
        """
        assert 0 <= size_bytes <= self.size_bytes
        still_seen = size_bytes < self._mapped_bytes and not self._unmap()
        if still_seen:
            self._replace_by_prefix(size_bytes)
        else:
            descriptor = self._descriptor if self._descriptor != CLOSED else self._open()
            self._open_files.filesystem.ftruncate(descriptor, size_bytes)
        self.size_bytes = size_bytes

    def cut_leftover(self) -> None:
        """Cuts what a failed append, whose undoing failed too, may have left at the end."""
        filesystem = self._open_files.filesystem
        if filesystem.size_and_age(self.path)[0] != self.size_bytes:
            descriptor = self._descriptor if self._descriptor != CLOSED else self._open()
            filesystem.ftruncate(descriptor, self.size_bytes)

    def let_go(self) -> None:
        """Closes the file; it opens again when needed. The map goes with its last view."""
        self._map_view = None
        self._map = None
        self._mapped_bytes = 0
        if self._descriptor != CLOSED:
            descriptor, self._descriptor = self._descriptor, CLOSED
            self._open_files.filesystem.close(descriptor)

    def close(self) -> None:
        self._open_files.forget(self)
        self.let_go()

    def _open(self) -> int:
        self._open_files.admit(self)
        self._descriptor = self._open_files.filesystem.open_existing(self.path)
        return self._descriptor

    def _map_all(self) -> None:
        descriptor = self._descriptor if self._descriptor != CLOSED else self._open()
        # The old map is dropped, never closed: readers may be in the middle of it.
        self._map = self._open_files.filesystem.map(descriptor, self.size_bytes)
        self._map_view = memoryview(self._map)
        self._mapped_bytes = self.size_bytes

    def _unmap(self) -> bool:
        """Drops the map; whether nobody else was looking at it."""
        unseen = self._map
        self._map = None
        self._map_view = None
        self._mapped_bytes = 0
        if unseen is None:
            return True
        try:
            unseen.close()
        except BufferError:  # a view is alive and keeps the map
            return False
        return True

    def _replace_by_prefix(self, size_bytes: int) -> None:
        filesystem = self._open_files.filesystem
        shorter = self.path + ".tmp"
        source = self._descriptor if self._descriptor != CLOSED else self._open()
        target = filesystem.open(shorter)
        try:
            filesystem.ftruncate(target, 0)
            for start in range(0, size_bytes, COPY_BYTES):
                count = min(COPY_BYTES, size_bytes - start)
                piece = read_exactly(filesystem, source, count, start)
                write_fully(filesystem, target, piece, start)
            filesystem.fdatasync(target)
        finally:
            filesystem.close(target)
        filesystem.rename(shorter, self.path)
        filesystem.sync_directory(directory_of(self.path))
        self.close()
