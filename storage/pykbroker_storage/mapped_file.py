"""A file that grows by one write at its end, its bytes read through a memory map."""

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

# Beyond the mapped range a read up to this size is copied: cheaper than mapping anew.
SMALL_READ_BYTES = 64 * 1024
COPY_BYTES = 1024 * 1024
# Where the system cannot tell what is cached: so many bytes of a file, appended by this process
# last, are taken to be in memory.
RECENT_BYTES = 16 * 1024 * 1024
CLOSED = -1
# A range up to this size is copied when no descriptor is left for a map of it.
COPIED_VIEW_BYTES_MAX = 64 * 1024 * 1024
# A response that a slow client has not read may keep many maps: then bytes are copied instead.
MAPS_DROPPED_MAX = 8
# Sealed segments whose indexes stay in memory; one of 1 GiB needs up to 5 MB.
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
        "can_tell_cached",
        "copies",
        "filesystem",
        "may_block",
        "recent_indexes",
    )

    def __init__(
        self, filesystem: FileSystem, descriptors_max: int, *, copies: bool = False
    ) -> None:
        assert descriptors_max > 0
        self.filesystem = filesystem
        self.copies = copies
        """Reads return copies, never views of a map. A page fault holds the interpreter lock and
        is a fatal signal where the disk cannot read; a copying read does neither."""
        self.may_block = True
        """Whether reads may wait for the disk; else they raise `NotCached`."""
        self.can_tell_cached = filesystem.can_tell_cached
        self.recent_indexes = RecentIndexes(INDEXES_MAX)
        self._descriptors_max = descriptors_max
        self._files: OrderedDict[MappedFile, None] = OrderedDict()
        self._mapped: OrderedDict[MappedFile, None] = OrderedDict()
        self._maps: set[weakref.ref[mmap.mmap]] = set()
        self._owner = threading.get_ident()
        self._lock = threading.Lock()  # of the descriptors that other threads use
        self._held: Counter[int] = Counter()
        self._closing: set[int] = set()

    def __len__(self) -> int:
        return len(self._files)

    def hand_over(self) -> None:
        """From now on the calling thread opens and evicts files."""
        self._owner = threading.get_ident()

    def open(self, file: "MappedFile") -> int:
        """A descriptor of the file, which is in the cache from now on."""
        self._make_room()
        descriptor = self.filesystem.open_existing(file.path)
        self._files[file] = None
        return descriptor

    def map(self, file: "MappedFile") -> "mmap.mmap | None":
        """A map of the whole file, which is open, or None if there is no descriptor for it."""
        if len(self._maps) >= self._descriptors_max // 2 and not self._release_map(keep=file):
            return None
        self._make_room(keep=file)
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

    def _make_room(self, keep: "MappedFile | None" = None) -> None:
        while len(self._files) + len(self._maps) >= self._descriptors_max:
            if not self.release_least_recent(keep):
                break

    def _release_map(self, keep: "MappedFile") -> bool:
        """Drops maps until one is gone; False after a few that are still read."""
        before = len(self._maps)
        for file in list(islice(self._mapped, MAPS_DROPPED_MAX)):
            if file is not keep:
                file.drop_map()
                if len(self._maps) < before:
                    return True
        return False

    def release_least_recent(self, keep: "MappedFile | None" = None) -> bool:
        """Closes a file; False if none is open, or on a thread that must not close files."""
        if threading.get_ident() != self._owner:
            return False
        for _ in range(2 * len(self._files)):  # each file may get a second chance
            candidate, _ = self._files.popitem(last=False)
            if candidate.recently_used or candidate is keep:
                candidate.recently_used = False
                self._files[candidate] = None
            else:
                candidate.let_go()
                return True
        return False

    def forget(self, file: "MappedFile") -> None:
        self._files.pop(file, None)

    def forget_map(self, file: "MappedFile") -> None:
        self._mapped.pop(file, None)

    @contextmanager
    def hold(self, file: "MappedFile") -> Iterator[int]:
        """The file's descriptor, CLOSED if it has none, for use on any thread.

        Until the block ends the descriptor stays open, also when the file is evicted or deleted.
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

    def take_descriptor(self, file: "MappedFile") -> None:
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
    """Single writer. `size_bytes` is the valid end: no view reaches beyond it."""

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
        """Writes at the end in one system call; returns where. A failure leaves all as it was."""
        descriptor = self.descriptor
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
        """The bytes from `start` to `end`, copied only if few and new, or without descriptors."""
        assert 0 <= start <= end <= self.size_bytes
        self.recently_used = True
        open_files = self._open_files
        if not open_files.may_block:
            return self._view_of_cached(start, end)
        if end > self._mapped_bytes and (end - start <= SMALL_READ_BYTES or open_files.copies):
            return memoryview(self.read(start, end))
        return self._view_of_map(start, end)

    def _view_of_cached(self, start: int, end: int) -> memoryview:
        """Few bytes are copied, which is as fast as to make sure that the map can be touched."""
        descriptor = self.descriptor
        if descriptor == CLOSED:
            if not self._was_opened:
                raise NotCached  # the disk may be needed for the file's place on it, too
            descriptor = self._open()
        open_files, filesystem = self._open_files, self._open_files.filesystem
        if open_files.can_tell_cached:
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
            open_files.can_tell_cached = False
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

    def open_ahead(self) -> None:
        """Opens a file that a thread has just read, so that reads which may not wait find it."""
        if self.descriptor == CLOSED:
            self._open()

    def read(self, start: int, end: int) -> bytes:
        """A copy of the bytes from `start` to `end`."""
        descriptor = self.descriptor
        if descriptor == CLOSED:
            descriptor = self._open()
        data = self._open_files.filesystem.pread(descriptor, end - start, start)
        if len(data) != end - start:
            return read_exactly(self._open_files.filesystem, descriptor, end - start, start)
        return data

    def view_all(self) -> memoryview:
        """The whole file, for a scan: let go of the view before truncating."""
        return self.view(0, self.size_bytes) if self.size_bytes else memoryview(b"")

    def make_readable(self, start: int, end: int) -> None:
        """Reads bytes of the map into memory; raises OSError where the disk cannot."""
        if self._map is not None and start < end:
            try:
                self._open_files.filesystem.populate(self._map, start, end)
            except OSError as error:
                reason = f"{error.strerror} between bytes {start} and {end}"
                raise OSError(error.errno, reason, self.path) from None

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
            descriptor = self.descriptor if self.descriptor != CLOSED else self._open()
            self._open_files.filesystem.ftruncate(descriptor, size_bytes)
        self.size_bytes = size_bytes
        self._appended_from = min(self._appended_from, size_bytes)

    def cut_leftover(self) -> None:
        """Cuts what a failed append, whose undoing failed too, may have left at the end."""
        filesystem = self._open_files.filesystem
        if filesystem.size_and_age(self.path)[0] != self.size_bytes:
            descriptor = self.descriptor if self.descriptor != CLOSED else self._open()
            filesystem.ftruncate(descriptor, self.size_bytes)

    def flush(self) -> None:
        """Flushes the file to disk; may run on any thread.

        Raises FileNotFoundError if the file was deleted: then its bytes survive nothing.
        """
        filesystem = self._open_files.filesystem
        with self._open_files.hold(self) as descriptor:
            if descriptor == CLOSED:
                sync_file(filesystem, self.path)
                return
            sync_descriptor(filesystem, descriptor, self.path)
            if os.fstat(descriptor).st_nlink == 0:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)

    def let_go(self) -> None:
        """Closes the file; it opens again when needed."""
        self.drop_map()
        self._open_files.take_descriptor(self)

    def drop_map(self) -> None:
        """The map is unmapped when its last view is gone."""
        self._map_view = None
        self._map = None
        self._mapped_bytes = 0
        self._open_files.forget_map(self)

    def close(self) -> None:
        self._open_files.forget(self)
        self.let_go()

    def _open(self) -> int:
        self.descriptor = self._open_files.open(self)
        self._was_opened = True
        return self.descriptor

    def _map_all(self) -> bool:
        """Maps the whole file; False if there is no descriptor for a map."""
        if self.descriptor == CLOSED:
            self._open()
        self.drop_map()  # never closed: readers may be in the middle of it
        mapped = self._open_files.map(self)
        if mapped is None:
            return False
        self._map = mapped
        self._map_view = memoryview(mapped)
        self._mapped_bytes = self.size_bytes
        return True

    def _unmap(self) -> bool:
        """Drops the map; whether nobody else was looking at it."""
        unseen = self._map
        self.drop_map()
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
        if self.descriptor == CLOSED:
            self._open()
        with self._open_files.hold(self) as source:  # opening the other file may evict this one
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
