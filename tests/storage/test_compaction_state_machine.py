"""Any order of appends, compactions, shutdowns and crashes loses no value (state machine)."""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pykbroker_protocol.records.compression import Compression
from pykbroker_storage.log import Log
from tests.storage.batches import NOW, open_log
from tests.storage.compaction_rounds import (
    COMPACTED,
    DELETE_RETENTION_MS,
    DeadlyDisk,
    Killed,
    append_keyed,
    compact,
    end_transaction,
    keyed_records,
    last_values,
)

MUCH = 10**9
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
VALUES = st.one_of(st.none(), st.binary(max_size=60))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)


class CompactionMachine(RuleBasedStateMachine):
    """The model: all records, and those that belong to no committed transaction."""

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        self.open_transactions: dict[int, list[int]] = {}
        self.aborted: set[int] = set()
        self.sequences = dict.fromkeys(range(5), 0)
        self.first_dirty_offset = 0
        self.now_ms = NOW
        self.disk = DeadlyDisk(MUCH)
        self.log = self.opened()

    def opened(self, *, was_clean: bool = False) -> Log:
        return open_log(
            Path(self.directory.name),
            COMPACTED,
            disk=self.disk,
            was_clean=was_clean,
            recovery_point=self.log.recovery_point if hasattr(self, "log") else 0,
        )

    @rule(pairs=PAIRS, codec=st.sampled_from([Compression.NONE, Compression.LZ4]))
    def write(self, pairs: list[tuple[bytes, bytes | None]], codec: Compression) -> None:
        offset = append_keyed(self.log, pairs, compression=codec)
        self.written.update(enumerate(pairs, offset))

    @rule(pairs=PAIRS, producer=st.integers(3, 4))
    def write_idempotently(self, pairs: list[tuple[bytes, bytes | None]], producer: int) -> None:
        self._write_as(producer, pairs, is_transactional=False)

    @rule(pairs=PAIRS, producer=st.integers(0, 2))
    def write_in_a_transaction(
        self, pairs: list[tuple[bytes, bytes | None]], producer: int
    ) -> None:
        offset = self._write_as(producer, pairs, is_transactional=True)
        self.open_transactions.setdefault(producer, []).extend(range(offset, offset + len(pairs)))

    def _write_as(
        self, producer: int, pairs: list[tuple[bytes, bytes | None]], *, is_transactional: bool
    ) -> int:
        offset = append_keyed(
            self.log,
            pairs,
            producer_id=producer,
            base_sequence=self.sequences[producer],
            is_transactional=is_transactional,
        )
        self.sequences[producer] += len(pairs)
        self.written.update(enumerate(pairs, offset))
        return offset

    @precondition(lambda self: self.open_transactions)
    @rule(data=st.data(), is_commit=st.booleans())
    def end(self, data: st.DataObject, *, is_commit: bool) -> None:
        producer = data.draw(st.sampled_from(sorted(self.open_transactions)))
        end_transaction(self.log, producer, is_commit=is_commit)
        offsets = self.open_transactions.pop(producer)
        if not is_commit:
            self.aborted.update(offsets)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule(map_keys=st.sampled_from([3, 1000]))
    def compact(self, map_keys: int) -> None:
        round_ = self._compacted(map_keys)
        self.first_dirty_offset = round_
        self.check_what_is_clean()

    def check_what_is_clean(self) -> None:
        """Each key exists once, and no aborted record exists."""
        clean = [it for it in keyed_records(self.log) if it[0] < self.first_dirty_offset]
        assert len({key for _, key, _ in clean}) == len(clean)
        assert self.aborted.isdisjoint(offset for offset, _, _ in clean)

    @rule(calls=st.integers(0, 60))
    def be_killed_in_compaction(self, calls: int) -> None:
        self.disk.calls_left = calls
        try:
            self.first_dirty_offset = self._compacted(1000)
        except Killed:
            pass
        finally:
            self.disk.calls_left = MUCH
        self.crash()

    def _compacted(self, map_keys: int) -> int:
        return compact(
            self.log,
            first_dirty_offset=self.first_dirty_offset,
            now_ms=self.now_ms,
            map_bytes_max=map_keys * 24,
        ).end_offset

    @rule()
    def wait(self) -> None:
        self.now_ms += DELETE_RETENTION_MS

    @rule()
    def crash(self) -> None:
        self.log.abandon()
        self.disk.bury()
        self.log = self.opened()

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = self.opened(was_clean=True)

    @rule()
    def lose_the_snapshots(self) -> None:
        """Producer states must be derivable from the batches alone."""
        self.log.abandon()
        for path in Path(self.directory.name).glob("*.snapshot"):
            path.unlink()
        self.log = self.opened()

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def nothing_is_lost(self) -> None:
        found = keyed_records(self.log)
        assert [it[0] for it in found] == sorted({it[0] for it in found})
        assert all(self.written[offset] == (key, value) for offset, key, value in found)
        committed = [it for it in found if it[0] not in self.aborted]
        everything = [
            (offset, *pair) for offset, pair in self.written.items() if offset not in self.aborted
        ]
        assert last_values(committed) == last_values(everything)

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def producers_are_known(self) -> None:
        known = {it.producer_id: it.last_sequence for it in self.log.producers.active()}
        assert known == {
            producer: sequence - 1 for producer, sequence in self.sequences.items() if sequence
        }

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def the_log_is_whole_and_every_offset_can_be_asked_for(self) -> None:
        assert list(self.log.verify()) == []
        everything = keyed_records(self.log)
        offset = random.Random(len(everything)).randrange(self.log.log_end_offset + 1)
        assert keyed_records(self.log, offset) == [it for it in everything if it[0] >= offset]

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
            self.disk.bury()
            self.directory.cleanup()


TestCompactionAsAWhole = pytest.mark.slow(CompactionMachine.TestCase)
TestCompactionAsAWhole.settings = settings(max_examples=60, stateful_step_count=40)
