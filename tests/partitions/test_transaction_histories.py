"""Random histories of transactions in one partition: readers get the committed records in order.

A plain model beside the partition knows each record and how its transaction ended.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING

import pytest

from pykbroker_storage.log import AppendResult
from tests.partitions.committed_records import committed_records
from tests.partitions.transactions import end, open_partition, transactional_batch, write
from tests.storage.batches import NOW

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 120
PRODUCERS = (3, 4, 5, 6)
OUTSIDER = 9
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
Record = tuple[int, bytes]


class Transaction:
    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.state = OPEN


class History:
    """One partition and its model, with restarts in between."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder = folder
        self.chance = chance
        self.records: list[tuple[int, bytes, Transaction | None]] = []
        self.open: dict[int, Transaction] = {}
        self.sequences: dict[int, int] = defaultdict(int)
        self.opened = ExitStack()
        self.partition = self.opened.enter_context(open_partition(folder))

    def step(self) -> None:
        what = self.chance.choices(
            (self.write, self.plain, self.end, self.delete, self.roll, self.restart),
            (40, 15, 30, 3, 6, 4),
        )[0]
        what()

    # --- steps

    def write(self) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        values = self.values()
        written = write(
            self.partition,
            *values,
            producer_id=producer_id,
            base_sequence=self.sequences[producer_id],
        )
        assert isinstance(written, AppendResult), written
        self.sequences[producer_id] += len(values)
        transaction = self.open.setdefault(producer_id, Transaction(written.first_offset))
        self.note(written.first_offset, values, transaction)

    def plain(self) -> None:
        values = self.values()
        batch = transactional_batch(
            *values,
            producer_id=OUTSIDER,
            base_sequence=self.sequences[OUTSIDER],
            is_transactional=False,
        )
        written = self.partition.leader.write_once(batch, NOW)
        assert isinstance(written, AppendResult), written
        self.sequences[OUTSIDER] += len(values)
        self.note(written.first_offset, values, None)

    def end(self) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        committed = self.chance.random() < 0.5
        assert isinstance(
            end(self.partition, producer_id=producer_id, committed=committed), AppendResult
        )
        transaction = self.open.pop(producer_id, None)
        if transaction is not None:
            transaction.state = COMMITTED if committed else ABORTED

    def delete(self) -> None:
        partition = self.partition
        start = self.chance.randint(partition.log.log_start_offset, partition.high_watermark)
        partition.delete_records_before(start, NOW)

    def roll(self) -> None:
        self.partition.log.roll(NOW)

    def restart(self) -> None:
        """Restarts after a clean stop or a kill; a kill can lose the files beside the log."""
        log = self.partition.log
        start_offset, was_clean = log.log_start_offset, self.chance.random() < 0.5
        if was_clean:
            log.close()
        self.opened.close()
        if not was_clean and self.chance.random() < 0.5:
            self.lose(".txnindex")
            if (self.folder / f"{0:020d}.log").exists():  # the only source of deleted sequences
                self.lose(".snapshot")
        self.partition = self.opened.enter_context(
            open_partition(self.folder, was_clean=was_clean, log_start_offset=start_offset)
        )

    def lose(self, suffix: str) -> None:
        for path in self.folder.glob(f"*{suffix}"):
            path.unlink()

    def values(self) -> list[bytes]:
        return [
            b"%d" % (len(self.records) + number) * self.chance.choice((1, 30))
            for number in range(self.chance.randint(1, 3))
        ]

    def note(self, first_offset: int, values: list[bytes], transaction: Transaction | None) -> None:
        self.records += [
            (first_offset + number, value, transaction) for number, value in enumerate(values)
        ]

    # --- expectations

    @property
    def stable_between(self) -> tuple[int, int]:
        """The first offset of the oldest open transaction, and that of its remaining records.

        Of a transaction whose first records were deleted, a restart may find only the others.
        """
        start, end_offset = self.partition.log.log_start_offset, self.partition.log.log_end_offset
        first_open = min((it.first_offset for it in self.open.values()), default=end_offset)
        left_open = (
            at
            for at, _, transaction in self.records
            if at >= start and transaction is not None and transaction.state == OPEN
        )
        return max(first_open, start), min(left_open, default=end_offset)

    def expected(self, offset: int) -> list[Record]:
        return [
            (at, value)
            for at, value, transaction in self.records
            if offset <= at < self.partition.last_stable_offset
            and (transaction is None or transaction.state == COMMITTED)
        ]

    def check(self) -> None:
        least, most = self.stable_between
        stable = self.partition.last_stable_offset
        assert least <= stable <= most
        start = self.chance.randint(self.partition.log.log_start_offset, stable)
        seen = committed_records(self.partition, start, self.chance)
        assert [(it.offset, it.value) for it in seen] == self.expected(start)


@pytest.mark.parametrize("seed", range(8))
def test_readers_get_committed_records_once_and_in_order(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "t-0", Random(seed))
    for _ in range(STEPS):
        history.step()
        history.check()
    history.opened.close()
    shutil.rmtree(tmp_path)
