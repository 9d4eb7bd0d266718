"""Flushes a log to disk: segments, small files and the names of both."""

from pykbroker_storage.filesystem import FileSystem, directory_of
from pykbroker_storage.partition_files import flush_small_files
from pykbroker_storage.segments import Segments


class LogFlusher:
    """Flushes the files of one log; may run on another thread than appends."""

    __slots__ = ("_directory", "_filesystem", "_segments", "is_directory_flushed")

    def __init__(self, filesystem: FileSystem, directory: str, segments: Segments) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._segments = segments
        self.is_directory_flushed = False
        """Reset when a segment or small file is created, replaced or renamed."""

    def flush(self, start_offset: int, end_offset: int, *, after_failure: bool) -> None:
        """Flushes the records between two offsets; raises FlushFailed.

        After a failed flush the files are rewritten first: without that a successful fsync proves
        nothing.
        """
        if after_failure:
            self._segments.rewrite_in_place(start_offset)
        self._segments.flush(start_offset, end_offset)
        self._flush_directory()

    def _flush_directory(self) -> None:
        if self.is_directory_flushed:
            return
        self.is_directory_flushed = True  # set first, because a concurrent roll resets it
        try:
            flush_small_files(self._filesystem, self._directory)
            self._filesystem.sync_directory(self._directory)
            self._filesystem.sync_directory(directory_of(self._directory))
        except BaseException:
            self.is_directory_flushed = False
            raise
