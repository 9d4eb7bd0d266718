"""Compaction in another process has the same result and never outlives its owner."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.compaction import (
    Compaction,
    CompactionLimits,
    CompactionProcess,
    CompactionStats,
    Job,
    OffsetMapBuilt,
    ProcessEnded,
    Rewritten,
    find_cleanable,
)
from pykbroker_storage.compaction.job import LastWritten, Source
from pykbroker_storage.compaction.throttler import UNLIMITED
from pykbroker_storage.compaction.worker import work
from pykbroker_storage.log import Log
from pykbroker_storage.transaction_index import AbortedTransaction
from tests.storage.batches import NOW, open_log
from tests.storage.compaction_rounds import (
    COMPACTED,
    append_keyed,
    compact,
    end_transaction,
    keyed_records,
)

pytestmark = pytest.mark.slow

BOUNDS = CompactionLimits(map_bytes_max=100_000, bytes_per_second=UNLIMITED)
SLOW = CompactionLimits(map_bytes_max=100_000, bytes_per_second=1000)
GONE_SECONDS_MAX = 5

OFFSETS = st.integers(-1, 2**63 - 1)
JOBS = st.builds(
    Job,
    directory=st.text(),
    sources=st.lists(st.builds(Source, st.text(), OFFSETS, OFFSETS, OFFSETS, OFFSETS)),
    first_dirty_offset=OFFSETS,
    end_offset=OFFSETS,
    aborted=st.lists(
        st.builds(
            AbortedTransaction,
            producer_id=OFFSETS,
            first_offset=OFFSETS,
            last_offset=OFFSETS,
            last_stable_offset=OFFSETS,
        )
    ),
    last_written=st.lists(st.builds(LastWritten, OFFSETS, OFFSETS, st.integers(-1, 2**15 - 1))),
    now_ms=OFFSETS,
    delete_retention_ms=OFFSETS,
    segment_bytes=OFFSETS,
    segment_index_bytes=OFFSETS,
    index_interval_bytes=OFFSETS,
    map_bytes_max=OFFSETS,
    bytes_per_second=st.floats(min_value=1),
    is_durable=st.booleans(),
)


@pytest.fixture
def process() -> Iterator[CompactionProcess]:
    process = CompactionProcess()
    yield process
    process.end()


def filled_log(directory: Path) -> Log:
    log = open_log(directory, COMPACTED)
    for number in range(40):
        append_keyed(log, [(b"k%d" % (number % 7), b"%d" % number)])
        append_keyed(
            log,
            [(b"t%d" % (number % 3), b"%d" % number)],
            producer_id=1,
            base_sequence=number,
            is_transactional=True,
        )
        end_transaction(log, 1, is_commit=number % 4 > 0)
    log.roll(NOW)
    return log


def begin(log: Log, bounds: CompactionLimits = BOUNDS) -> Compaction:
    log.producers.advance_high_watermark(log.log_end_offset)
    cleanable = find_cleanable(
        log.segments()[:-1],
        log.configuration,
        first_dirty_offset=0,
        log_start_offset=0,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.log_end_offset,
        now_ms=NOW,
    )
    return Compaction.begin(log, cleanable, now_ms=NOW, bounds=bounds)


def work_on(process: CompactionProcess) -> None:
    """Runs a job to its end without swapping in."""
    while isinstance(process.next(), Rewritten):
        pass


@given(JOBS)
def test_a_job_is_encoded_as_one_line(job: Job) -> None:
    line = job.encode()
    assert "\n" not in line
    assert Job.decode(line) == job


def test_the_process_compacts_like_the_caller_would(
    tmp_path: Path, process: CompactionProcess
) -> None:
    here, there = filled_log(tmp_path / "here"), filled_log(tmp_path / "there")
    expected = compact(here)
    before = len(keyed_records(there))
    round_ = begin(there)
    assert process.begin(round_.job) == expected
    while isinstance(step := process.next(), Rewritten):
        round_.swap_in(step)
    assert keyed_records(there) == keyed_records(here)
    assert step.records_kept == len(keyed_records(here)) < before
    assert step.bytes_written == there.size_bytes
    assert there.aborted_transactions(0, 200) == here.aborted_transactions(0, 200)


def test_one_process_does_many_jobs(tmp_path: Path, process: CompactionProcess) -> None:
    pids = set()
    for number in range(3):
        round_ = begin(filled_log(tmp_path / str(number)))
        process.begin(round_.job)
        pids.add(process.pid)
        while isinstance(step := process.next(), Rewritten):
            round_.swap_in(step)
    assert len(pids) == 1


def test_errors_of_the_process_are_raised_by_the_caller(
    tmp_path: Path, process: CompactionProcess
) -> None:
    log = filled_log(tmp_path / "log")
    job = begin(log).job
    with pytest.raises(FileNotFoundError):
        process.begin(replace(job, sources=[job.sources[0]._replace(path="nowhere")]))
    path = Path(job.sources[0].path)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptBatch, match="checksum"):
        process.begin(job)
    path.write_bytes(path.read_bytes()[:70])
    with pytest.raises(OSError, match="file ends at byte 70"):
        process.begin(job)


def test_every_message_of_the_worker_is_decoded(tmp_path: Path) -> None:
    job = begin(filled_log(tmp_path / "log")).job
    kinds = [kind for kind, *_ in work(job)]
    assert kinds == ["mapped", *["rewritten"] * (len(kinds) - 2), "done"]
    assert [kind for kind, *_ in work(replace(job, directory="/nowhere"))] == ["mapped", "failed"]


def test_a_killed_process_raises_and_the_next_job_starts_another(
    tmp_path: Path, process: CompactionProcess
) -> None:
    log = filled_log(tmp_path / "log")
    process.begin(begin(log, CompactionLimits(map_bytes_max=100_000, bytes_per_second=100_000)).job)
    killed = process.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    with pytest.raises(ProcessEnded, match="exit code -9"):
        work_on(process)
    process.end()
    round_ = begin(log)
    assert isinstance(process.begin(round_.job), OffsetMapBuilt)
    while isinstance(step := process.next(), Rewritten):
        round_.swap_in(step)
    assert isinstance(step, CompactionStats)
    assert process.pid != killed


def test_a_process_that_cannot_be_started_raises_process_ended(
    tmp_path: Path, process: CompactionProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begin(filled_log(tmp_path / "log")).job
    monkeypatch.setattr(sys, "executable", "/nowhere")
    with pytest.raises(ProcessEnded, match="cannot be started"):
        process.begin(job)
    monkeypatch.undo()
    assert isinstance(process.begin(job), OffsetMapBuilt)


OWNER = """
import sys, threading
from pykbroker_storage.compaction import CompactionProcess, Job
process = CompactionProcess()
threading.Thread(target=process.begin, args=(Job.decode(sys.stdin.readline()),)).start()
while process.pid is None:
    pass
print(process.pid, flush=True)
"""


def test_the_process_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    job = begin(filled_log(tmp_path / "log"), SLOW).job
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        owner.stdin.write(job.encode() + "\n")
        owner.stdin.flush()
        pid = int(owner.stdout.readline())
        assert is_running(pid)
        owner.kill()
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while is_running(pid):
        assert time.monotonic() < deadline, "it works on"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """An orphan may remain as a zombie if no process waits for it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_the_process_respects_bytes_per_second(tmp_path: Path, process: CompactionProcess) -> None:
    log = filled_log(tmp_path / "log")
    bounds = CompactionLimits(map_bytes_max=100_000, bytes_per_second=5 * log.size_bytes)
    began = time.monotonic()
    process.begin(begin(log, bounds).job)
    work_on(process)
    assert time.monotonic() - began > 2 / 5  # all bytes are read twice
