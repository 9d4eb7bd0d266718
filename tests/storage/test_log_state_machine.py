"""Any sequence of appends, reads, deletions and crashes has the predicted result (model)."""

import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.mapped_file import CLOSED
from pykbroker_storage.read_view import ReadView
from tests.storage.batches import NOW, append, open_log, records_from
from tests.storage.disks import CountingDisk

pytestmark = pytest.mark.slow

CONFIGURATION = LogConfiguration(
    segment_bytes=600, index_interval_bytes=100, retention_bytes=1500, file_delete_delay_ms=0
)


class LogMachine(RuleBasedStateMachine):
    """The model: records by offset, and the end offsets of their batches."""

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.records: list[tuple[int, bytes | None]] = []
        self.batch_ends = [0]
        self.start = 0
        self.count = 0
        self.held: list[tuple[memoryview, bytes]] = []
        self.frozen: list[tuple[ReadView, int, int, int, bytes | None]] = []
        self.disk = CountingDisk()
        self.log = open_log(Path(self.directory.name), CONFIGURATION, disk=self.disk)

    @rule(sizes=st.lists(st.integers(0, 200), min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        values = [
            b"%08d" % (self.count + number) + bytes(size) for number, size in enumerate(sizes)
        ]
        self.count += len(values)
        first = append(self.log, *values).first_offset
        assert first == self.batch_ends[-1]
        self.records += list(enumerate(values, first))
        self.batch_ends.append(first + len(values))

    @rule(data=st.data(), bytes_max=st.integers(1, 2000))
    def hold_a_slice(self, data: st.DataObject, bytes_max: int) -> None:
        offset = data.draw(st.integers(self.start, self.batch_ends[-1]))
        found = self.log.read(offset, bytes_max=bytes_max, end_offset=self.batch_ends[-1])
        assert (found is None) == (offset == self.batch_ends[-1])
        content = None if found is None else bytes(found.view)
        if found is not None:
            self.held.append((found.view, bytes(found.view)))
        end = self.batch_ends[-1]
        self.frozen.append((self.log.read_view(offset), offset, bytes_max, end, content))

    @rule()
    def read_what_was_frozen(self) -> None:
        """Uses a read view like a thread, after other changes to the log."""
        for frozen, offset, bytes_max, end, content in self.frozen:
            read = partial(ReadView.read, bytes_max=bytes_max, end_offset=end)
            try:
                found = frozen.use(read, offset)
            except (OSError, CorruptLog):
                assert not self.log.merge(frozen)
                continue
            if self.log.merge(frozen):
                assert (None if found is None else bytes(found.view)) == content
        self.frozen.clear()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.batch_ends[-1] + 1))
        self.log.truncate_to(offset, NOW)
        base = self.batch_ends[0]
        self.batch_ends = [end for end in self.batch_ends if end <= offset] or [base]
        self.records = [pair for pair in self.records if pair[0] < self.batch_ends[-1]]
        self.start = min(self.start, self.batch_ends[-1])
        assert self.log.log_end_offset == self.batch_ends[-1]

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.batch_ends[-1]))
        self.log.advance_log_start(self.start, NOW)

    @rule()
    def enforce_retention(self) -> None:
        self.log.enforce_retention(NOW)
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset

    @rule(later_ms=st.integers(-1, 1))
    def look_up_times(self, later_ms: int) -> None:
        found = self.log.read_view().use(ReadView.offset_at_timestamp, NOW + later_ms)
        assert (found is None) == (later_ms > 0 or self.start == self.batch_ends[-1])
        assert self.log.aborted_transactions(self.start, self.batch_ends[-1]) == []

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self._open(was_clean=True)

    @rule(flushed=st.booleans())
    def crash(self, *, flushed: bool) -> None:
        if flushed:
            self.log.flush()
        self.log.abandon()
        self._open(was_clean=False)

    def _open(self, *, was_clean: bool) -> None:
        self.frozen.clear()
        self.log = open_log(
            Path(self.directory.name),
            CONFIGURATION,
            was_clean=was_clean,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.start,
            disk=self.disk,
        )

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def the_log_is_what_the_model_says(self) -> None:
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.batch_ends[-1]
        expected = [pair for pair in self.records if pair[0] >= self.start]
        assert records_from(self.log, self.start) == expected
        assert list(self.log.verify()) == []

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def only_segments_keep_a_descriptor(self) -> None:
        descriptors = {it.file.descriptor for it in self.log.segments()} - {CLOSED}
        assert self.disk.open_now == descriptors

    @precondition(lambda self: hasattr(self, "held"))
    @invariant()
    def slices_stay_what_they_were(self) -> None:
        assert all(bytes(view) == content for view, content in self.held)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
            assert self.disk.open_now == set()
            self.held.clear()
            self.directory.cleanup()


TestLogAsAWhole = LogMachine.TestCase
TestLogAsAWhole.settings = settings(max_examples=80, stateful_step_count=30)
