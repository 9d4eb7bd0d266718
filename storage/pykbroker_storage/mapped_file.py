"""An append-only file that is written with `pwrite` and read through a memory map."""

import errno
import os
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING

from pykbroker_storage.filesystem import (
    NO_DESCRIPTOR,
    FileSystem,
    NotCached,
    directory_of,
    read_exactly,
    sync_descriptor,
    sync_file,
    write_fully,
)
from pykbroker_storage.segment_indexes import RecentIndexes

if TYPE_CHECKING:
    import mmap

# Beyond the mapped range, reads up to this size are copied: cheaper than a new map.
SMALL_READ_BYTES = 64 * 1024
COPY_BYTES = 1024 * 1024
# If the file system cannot report cached pages, the last bytes that this process appended are
# assumed to be in memory.
RECENT_BYTES = 16 * 1024 * 1024
CLOSED = -1
# Ranges up to this size are copied if no descriptor is free for a map.
COPIED_VIEW_BYTES_MAX = 64 * 1024 * 1024
# Unread responses can keep many maps alive: after this many attempts the bytes are copied.
MAPS_DROPPED_MAX = 8
# Sealed segments whose indexes stay in memory; the indexes of 1 GiB need up to 5 MB.
INDEXES_MAX = 32


class OpenFiles:
    """LRU cache of open files that bounds the file descriptors they use.

    An open file uses one descriptor. A map uses another one until its last view is gone; at most
    half of the descriptors are used by maps. An evicted file opens again on its next use. One
    thread opens and evicts files; others may `hold` them.
    """

    __slots__ = (
        "_closing",
        "_descriptors_max",
        "_files",
        "_held",
        "_lock",
        "_mapped",
        "_maps",
        "_owner",
        "copies",
        "filesystem",
        "may_block",
        "recent_indexes",
        "reports_cached",
    )

    def __init__(
        self, filesystem: FileSystem, descriptors_max: int, *, copies: bool = False
    ) -> None:
        assert descriptors_max > 0
        self.filesystem = filesystem
        self.copies = copies
        """Reads return copies, never views of a map. A page fault holds the interpreter lock and
        ends the process if the disk cannot read; a copying read does neither."""
        self.may_block = True
        """If False, reads that would wait for the disk raise `NotCached`."""
        self.reports_cached = filesystem.reports_cached
        self.recent_indexes = RecentIndexes(INDEXES_MAX)
        self._descriptors_max = descriptors_max
        self._files: OrderedDict[MappedFile, None] = OrderedDict()
        self._mapped: OrderedDict[MappedFile, None] = OrderedDict()
        self._maps: set[weakref.ref[mmap.mmap]] = set()
        self._owner = threading.get_ident()
        self._lock = threading.Lock()  # guards descriptors that other threads use
        self._held: Counter[int] = Counter()
        self._closing: set[int] = set()

    def __len__(self) -> int:
        return len(self._files)

    def set_owner_thread(self) -> None:
        """Makes the calling thread the one that opens and evicts files."""
        self._owner = threading.get_ident()

    def open(self, file: "MappedFile") -> int:
        """Opens the file, adds it to the cache and returns its descriptor."""
        self._free_descriptors()
        descriptor = self.filesystem.open_existing(file.path)
        self._files[file] = None
        return descriptor

    def map(self, file: "MappedFile") -> "mmap.mmap | None":
        """Maps an open file completely; returns None if no descriptor is free."""
        if len(self._maps) >= self._descriptors_max // 2 and not self._release_map(keep=file):
            return None
        self._free_descriptors(keep=file)
        while True:
            try:
                mapped = self.filesystem.map(file.descriptor, file.size_bytes)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
                if not self.release_least_recent(keep=file):
                    return None
            else:
                self._maps.add(weakref.ref(mapped, self._maps.discard))
                self._mapped[file] = None
                return mapped

    def _free_descriptors(self, keep: "MappedFile | None" = None) -> None:
        while len(self._files) + len(self._maps) >= self._descriptors_max:
            if not self.release_least_recent(keep):
                break

    def _release_map(self, keep: "MappedFile") -> bool:
        """Drops maps until one is freed; returns False after a few that readers still use."""
        before = len(self._maps)
        for file in list(islice(self._mapped, MAPS_DROPPED_MAX)):
            if file is not keep:
                file.drop_map()
                if len(self._maps) < before:
                    return True
        return False

    def release_least_recent(self, keep: "MappedFile | None" = None) -> bool:
        """Closes one file; returns False if none is open or this thread must not close files."""
        if threading.get_ident() != self._owner:
            return False
        for _ in range(2 * len(self._files)):  # each file may get a second chance
            candidate, _ = self._files.popitem(last=False)
            if candidate.recently_used or candidate is keep:
                candidate.recently_used = False
                self._files[candidate] = None
            else:
                candidate.release()
                return True
        return False

    def remove(self, file: "MappedFile") -> None:
        self._files.pop(file, None)

    def remove_map(self, file: "MappedFile") -> None:
        self._mapped.pop(file, None)

    @contextmanager
    def hold(self, file: "MappedFile") -> Iterator[int]:
        """Yields the file's descriptor, or CLOSED, for use on any thread.

        The descriptor stays open until the block ends, even if the file is evicted or deleted.
        """
        with self._lock:
            descriptor = file.descriptor
            if descriptor != CLOSED:
                self._held[descriptor] += 1
        try:
            yield descriptor
        finally:
            if descriptor != CLOSED:
                self._release(descriptor)

    def _release(self, descriptor: int) -> None:
        with self._lock:
            self._held[descriptor] -= 1
            if self._held[descriptor]:
                return
            del self._held[descriptor]
            if descriptor not in self._closing:
                return
            self._closing.remove(descriptor)
        self.filesystem.close(descriptor)

    def close_descriptor(self, file: "MappedFile") -> None:
        """Closes the file's descriptor as soon as no other thread uses it."""
        with self._lock:
            descriptor, file.descriptor = file.descriptor, CLOSED
            if descriptor == CLOSED:
                return
            if descriptor in self._held:
                self._closing.add(descriptor)
                return
        self.filesystem.close(descriptor)


class MappedFile:
    """A file with one writer. `size_bytes` is its valid end: no view reaches beyond it."""

    __slots__ = (
        "_appended_from",
        "_map",
        "_map_view",
        "_mapped_bytes",
        "_open_files",
        "_was_opened",
        "descriptor",
        "path",
        "recently_used",
        "size_bytes",
    )

    def __init__(self, path: str, size_bytes: int, open_files: OpenFiles) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.recently_used = False
        self._appended_from = size_bytes
        self._was_opened = False
        self._open_files = open_files
        self.descriptor = CLOSED
        self._map: mmap.mmap | None = None
        self._map_view: memoryview | None = None
        self._mapped_bytes = 0

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Appends with one system call and returns the position; a failed write changes nothing."""
        descriptor = self.descriptor
        if descriptor == CLOSED:
            descriptor = self._open()
        position = self.size_bytes
        try:
            write_fully(self._open_files.filesystem, descriptor, data, position)
        except OSError:
            # No map or view reaches beyond the valid end, so truncating is safe. If it fails, the
            # next append overwrites the bytes and `cut_leftover` removes the rest.
            with suppress(OSError):
                self._open_files.filesystem.ftruncate(descriptor, position)
            raise
        self.size_bytes = position + len(data)
        self.recently_used = True
        return position

    def view(self, start: int, end: int) -> memoryview:
        """Returns the bytes from `start` to `end`, as a view of the map if possible."""
        assert 0 <= start <= end <= self.size_bytes
        self.recently_used = True
        open_files = self._open_files
        if not open_files.may_block:
            return self._view_of_cached(start, end)
        if end > self._mapped_bytes and (end - start <= SMALL_READ_BYTES or open_files.copies):
            return memoryview(self.read(start, end))
        return self._view_of_map(start, end)

    def _view_of_cached(self, start: int, end: int) -> memoryview:
        """Like `view`, without waiting. Small ranges are copied: a probe costs as much."""
        descriptor = self.descriptor
        if descriptor == CLOSED:
            if not self._was_opened:
                raise NotCached  # opening the file may read its inode from disk
            descriptor = self._open()
        open_files, filesystem = self._open_files, self._open_files.filesystem
        if open_files.reports_cached:
            if end - start <= SMALL_READ_BYTES:
                data = filesystem.pread_cached(descriptor, end - start, start)
                if data is not None:
                    return memoryview(data)
            else:
                is_cached = filesystem.is_cached(descriptor, start, end)
                if is_cached is False:
                    raise NotCached
                if is_cached:
                    return self._view_of_map(start, end)
            open_files.reports_cached = False
        if start < max(self._appended_from, self.size_bytes - RECENT_BYTES):
            raise NotCached
        if end - start <= SMALL_READ_BYTES:
            return memoryview(self.read(start, end))
        return self._view_of_map(start, end)

    def _view_of_map(self, start: int, end: int) -> memoryview:
        if end > self._mapped_bytes and not self._map_all():
            if end - start > COPIED_VIEW_BYTES_MAX:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), self.path)
            return memoryview(self.read(start, end))
        assert self._map_view is not None
        return self._map_view[start:end]

    def ensure_open(self) -> None:
        """Opens the file after a thread has read it, so that non-blocking reads can use it."""
        if self.descriptor == CLOSED:
            self._open()

    def read(self, start: int, end: int) -> bytes:
        """Returns a copy of the bytes from `start` to `end`."""
        descriptor = self.descriptor
        if descriptor == CLOSED:
            descriptor = self._open()
        data = self._open_files.filesystem.pread(descriptor, end - start, start)
        if len(data) != end - start:
            return read_exactly(self._open_files.filesystem, descriptor, end - start, start)
        return data

    def view_all(self) -> memoryview:
        """Returns a view of the whole file for a scan; release it before truncating."""
        return self.view(0, self.size_bytes) if self.size_bytes else memoryview(b"")

    def make_readable(self, start: int, end: int) -> None:
        """Reads mapped bytes into memory; raises OSError if the disk cannot read them."""
        if self._map is not None and start < end:
            try:
                self._open_files.filesystem.populate(self._map, start, end)
            except OSError as error:
                reason = f"{error.strerror} between bytes {start} and {end}"
                raise OSError(error.errno, reason, self.path) from None

    def truncate(self, size_bytes: int) -> None:
        """Removes the end of the file.

        Touching a mapped page beyond the end of its file ends the process. If views of the removed
        part exist, a shorter copy replaces the file.
        """
        assert 0 <= size_bytes <= self.size_bytes
        has_views = size_bytes < self._mapped_bytes and not self._unmap()
        if has_views:
            self._replace_by_prefix(size_bytes)
        else:
            descriptor = self.descriptor if self.descriptor != CLOSED else self._open()
            self._open_files.filesystem.ftruncate(descriptor, size_bytes)
        self.size_bytes = size_bytes
        self._appended_from = min(self._appended_from, size_bytes)

    def cut_leftover(self) -> None:
        """Removes bytes that a failed append left beyond the valid end."""
        filesystem = self._open_files.filesystem
        if filesystem.size_and_age(self.path)[0] != self.size_bytes:
            descriptor = self.descriptor if self.descriptor != CLOSED else self._open()
            filesystem.ftruncate(descriptor, self.size_bytes)

    def flush(self) -> None:
        """Flushes the file to disk; may run on any thread.

        Raises FileNotFoundError if the file was deleted.
        """
        filesystem = self._open_files.filesystem
        with self._open_files.hold(self) as descriptor:
            if descriptor == CLOSED:
                sync_file(filesystem, self.path)
                return
            sync_descriptor(filesystem, descriptor, self.path)
            if os.fstat(descriptor).st_nlink == 0:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)

    def release(self) -> None:
        """Closes the descriptor and drops the map; the next use opens the file again."""
        self.drop_map()
        self._open_files.close_descriptor(self)

    def drop_map(self) -> None:
        """Drops the map, which is unmapped when its last view is released."""
        self._map_view = None
        self._map = None
        self._mapped_bytes = 0
        self._open_files.remove_map(self)

    def close(self) -> None:
        self._open_files.remove(self)
        self.release()

    def _open(self) -> int:
        self.descriptor = self._open_files.open(self)
        self._was_opened = True
        return self.descriptor

    def _map_all(self) -> bool:
        """Maps the whole file; returns False if no descriptor is free for a map."""
        if self.descriptor == CLOSED:
            self._open()
        self.drop_map()  # not closed, because readers may hold views of it
        mapped = self._open_files.map(self)
        if mapped is None:
            return False
        self._map = mapped
        self._map_view = memoryview(mapped)
        self._mapped_bytes = self.size_bytes
        return True

    def _unmap(self) -> bool:
        """Drops the map; returns True if no view of it exists."""
        unmapped = self._map
        self.drop_map()
        if unmapped is None:
            return True
        try:
            unmapped.close()
        except BufferError:  # a view keeps the map alive
            return False
        return True

    def _replace_by_prefix(self, size_bytes: int) -> None:
        filesystem = self._open_files.filesystem
        shorter = self.path + ".tmp"
        if self.descriptor == CLOSED:
            self._open()
        with self._open_files.hold(self) as source:  # opening the copy may evict this file
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
