"""Random histories of transactions in a partition with compactions in between.

Readers of committed records get each key's last committed value, and nothing that was aborted.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING

import pytest

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_storage.log import AppendResult
from tests.partitions.committed_records import committed_records
from tests.partitions.transactions import end, join, open_partition
from tests.storage.batches import NOW
from tests.storage.compaction_rounds import compact

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.partitions.partition import Partition

STEPS = 150
PRODUCERS = (3, 4, 5)
KEYS = 6
Row = tuple[int, bytes, bytes]


class History:
    """One partition, and a list of its committed records."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder = folder
        self.chance = chance
        self.committed: list[Row] = []
        self.open: dict[int, list[Row]] = {}
        self.sequences: dict[int, int] = defaultdict(int)
        self.rounds = 0
        self.removed = 0
        self.opened = ExitStack()
        self.partition = self.open_partition(was_clean=True)

    def open_partition(self, *, was_clean: bool) -> Partition:
        return self.opened.enter_context(
            open_partition(
                self.folder,
                was_clean=was_clean,
                cleanup_policy="compact",
                min_cleanable_dirty_ratio="0",
                delete_retention_ms="0",
            )
        )

    def step(self) -> None:
        what = self.chance.choices(
            (self.write, self.end, self.compact, self.restart), (55, 30, 8, 5)
        )[0]
        what()

    def write(self) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        if producer_id not in self.open:
            join(self.partition, producer_id=producer_id)
        batch, pairs = self.batch_of(producer_id)
        written = self.partition.leader.write_once(batch, NOW)
        assert isinstance(written, AppendResult), written
        self.sequences[producer_id] += len(pairs)
        self.open.setdefault(producer_id, []).extend(
            (written.first_offset + number, *pair) for number, pair in enumerate(pairs)
        )

    def batch_of(self, producer_id: int) -> tuple[RecordBatch, list[tuple[bytes, bytes]]]:
        builder = BatchBuilder(
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.sequences[producer_id],
            is_transactional=True,
        )
        pairs = [
            (b"key-%d" % self.chance.randrange(KEYS), b"%d" % self.chance.randrange(10**6))
            for _ in range(self.chance.randint(1, 3))
        ]
        for key, value in pairs:
            builder.append(NOW, key, value)
        return RecordBatch.parse(memoryview(bytearray(builder.build()))), pairs

    def end(self) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        committed = self.chance.random() < 0.5
        assert isinstance(
            end(self.partition, producer_id=producer_id, committed=committed), AppendResult
        )
        rows = self.open.pop(producer_id, [])
        if committed:
            self.committed += rows

    def compact(self) -> None:
        """Compacts far in the future, so that no marker is retained for concurrent readers."""
        self.rounds += 1
        log = self.partition.log
        log.roll(NOW)
        compact(
            log,
            last_stable_offset=self.partition.last_stable_offset,
            now_ms=NOW + self.rounds * 1_000_000,
        )

    def restart(self) -> None:
        was_clean = self.chance.random() < 0.5
        if was_clean:
            self.partition.log.close()
        self.opened.close()
        if not was_clean:
            for path in self.folder.glob("*.txnindex"):
                path.unlink()
        self.partition = self.open_partition(was_clean=was_clean)

    def check(self) -> None:
        stable = self.partition.last_stable_offset
        wanted = sorted(row for row in self.committed if row[0] < stable)
        seen = [
            (record.offset, bytes(record.key or b""), bytes(record.value or b""))
            for record in committed_records(self.partition, 0, self.chance)
        ]
        assert set(seen) <= set(wanted)
        assert seen == sorted(seen)
        assert table(seen) == table(wanted)
        self.removed = max(self.removed, len(wanted) - len(seen))


def table(rows: list[Row]) -> dict[bytes, bytes]:
    return {key: value for _, key, value in rows}


@pytest.mark.parametrize("seed", range(8))
def test_readers_get_the_last_committed_value_of_each_key(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "t-0", Random(seed))
    for _ in range(STEPS):
        history.step()
        history.check()
    assert history.removed > 10
    history.opened.close()
