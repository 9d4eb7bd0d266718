"""`pipeline verify` finds gaps, losses and duplicates."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pykbroker import Broker
from pykbroker.cli.main import main
from pykbroker.pipeline import verify_broker
from pykbroker.pipeline.archive.archived_files import CannotReadArchive, archived_files
from pykbroker.pipeline.archive.batch_record import OffsetRange, TopicPartition
from pykbroker.pipeline.archive.coverage import coverage_of
from pykbroker.pipeline.archive.ledger import Ledger
from pykbroker.pipeline.archive.target import ArchiveTarget
from pykbroker.pipeline.verify import PartitionReport, Verdict, verify
from tests.pipeline.archive_files import write_offsets

TRUCKS_0 = TopicPartition("trucks", 0)


class Cluster:
    """A partition of topic `trucks` with records at these offsets."""

    def __init__(self, low: int, high: int, *records: int) -> None:
        self.span = OffsetRange(low, high)
        self.records = records

    def partitions(self, topic: str) -> list[int]:
        return [0] if topic == "trucks" else []

    def bounds(self, *_: object) -> OffsetRange:
        return self.span

    def first_records(
        self, _topic: str, _partition: int, spans: Sequence[OffsetRange]
    ) -> list[int | None]:
        return [self.first_record(span) for span in spans]

    def first_record(self, span: OffsetRange) -> int | None:
        assert self.span.first <= span.first <= span.last < self.span.last
        return next((it for it in self.records if span.first <= it <= span.last), None)


@pytest.mark.parametrize(
    ("files", "runs", "duplicates"),
    [
        ([[0, 1, 2]], [(0, 2)], []),
        ([[2, 0, 1], [3]], [(0, 3)], []),
        ([[0, 1], [4], [2]], [(0, 2), (4, 4)], []),
        ([[0, 1, 1, 2]], [(0, 2)], [(1, 1)]),
        ([[0, 1, 2, 3], [2, 3, 4]], [(0, 4)], [(2, 3)]),
        ([[0, 9], [5], [5]], [(0, 0), (5, 5), (9, 9)], [(5, 5)]),
    ],
)
def test_offsets_are_grouped_into_runs_and_duplicates(
    tmp_path: Path, files: list[list[int]], runs: object, duplicates: object
) -> None:
    for number, offsets in enumerate(files):
        write_offsets(tmp_path, (0, offsets), (7, [0]), name=str(number))
    covered = coverage_of(archived_files(tmp_path))
    assert list(covered[TRUCKS_0].runs) == runs
    assert list(covered[TRUCKS_0].duplicates) == duplicates
    assert covered[TRUCKS_0].records == sum(map(len, files))


def only_report(archive: Path, cluster: Cluster | None, **options: bool) -> PartitionReport:
    (report,) = verify(archive, cluster, **options).partitions
    return report


@pytest.mark.parametrize(
    ("offsets", "cluster", "verdict", "text"),
    [
        (range(5), None, Verdict.PROVED, ""),
        ([0, 1, 4], None, Verdict.UNPROVED, "gap at offsets 2 to 3: a broker is needed"),
        ([0, 1, 4], Cluster(0, 5), Verdict.PROVED, ""),
        ([0, 1, 4], Cluster(0, 5, 3), Verdict.BROKEN, "missing: offsets 2 to 3; .* record at 3"),
        ([1, 2], Cluster(0, 3, 0), Verdict.BROKEN, "missing: offset 0; .* a record at 0"),
        ([0, 1, 4], Cluster(3, 5), Verdict.UNPROVED, "offset 2: the topic now starts at 3"),
        ([0, 1], Cluster(0, 1), Verdict.BROKEN, "ends at 1, before the archive"),
        ([0, 0], Cluster(0, 1), Verdict.BROKEN, "duplicates: offset 0"),
    ],
)
def test_gap_is_compared_with_the_topic(
    tmp_path: Path, offsets: Iterable[int], cluster: Cluster | None, verdict: Verdict, text: str
) -> None:
    write_offsets(tmp_path, (0, offsets))
    report = only_report(tmp_path, cluster)
    assert report.verdict is verdict
    if text:
        (finding,) = report.findings
        assert re.search(text, finding.text), finding.text


def test_archive_is_behind_if_committed_records_follow(tmp_path: Path) -> None:
    write_offsets(tmp_path, (0, range(3)))
    assert only_report(tmp_path, Cluster(0, 5, 4)).is_behind
    assert not only_report(tmp_path, Cluster(0, 5)).is_behind  # only markers follow
    assert not only_report(tmp_path, Cluster(0, 3)).is_behind


def test_archive_may_start_after_its_topic(tmp_path: Path) -> None:
    write_offsets(tmp_path, (0, [5, 6]))
    assert only_report(tmp_path, Cluster(0, 7, 1)).verdict is Verdict.BROKEN
    report = only_report(tmp_path, Cluster(0, 7, 1), from_first_archived=True)
    assert report.verdict is Verdict.PROVED


def test_recorded_batch_with_missing_files_is_unfinished(tmp_path: Path) -> None:
    target = ArchiveTarget(path=str(tmp_path / "lake"))
    ledger = Ledger(target, "writer")
    attempt = ledger.attempt(0)
    write_offsets(attempt.directory, (0, range(3)))
    record = ledger.record(attempt, {TRUCKS_0: OffsetRange(0, 2)})
    assert [file.archived for file in record.files] == list(
        verify(tmp_path / "lake", None).unfinished
    )
    ledger.finish(record)
    assert verify(tmp_path / "lake", None).verdict is Verdict.PROVED


def archived_batch(ledger: Ledger, batch_id: int, **spans: OffsetRange) -> list[Path]:
    """Returns the files of a batch; `p0=OffsetRange(0, 4)` are records of partition 0."""
    attempt = ledger.attempt(batch_id)
    ranges = {TopicPartition("trucks", int(name[1:])): span for name, span in spans.items()}
    for where, span in ranges.items():
        offsets = range(span.first, span.last + 1)
        write_offsets(attempt.directory, (where.partition, offsets), name=str(where))
    record = ledger.record(attempt, ranges)
    ledger.finish(record)
    return [ledger.archive / file.archived for file in record.files]


def test_deleted_files_are_reported_as_lost(tmp_path: Path) -> None:
    ledger = Ledger(ArchiveTarget(path=str(tmp_path / "lake")), "writer")
    first = archived_batch(ledger, 0, p0=OffsetRange(0, 4), p1=OffsetRange(0, 9))
    archived_batch(ledger, 1, p0=OffsetRange(5, 9))
    assert verify(ledger.archive, None).verdict is Verdict.PROVED
    first[1].unlink()
    whole, lost = verify(ledger.archive, None).partitions
    assert whole.verdict is Verdict.PROVED
    assert (lost.partition, lost.records, lost.verdict) == (1, 0, Verdict.BROKEN)
    assert [it.text for it in lost.findings] == [
        "lost: offsets 0 to 9; the ledger records them, but no file contains them"
    ]


def test_empty_directory_is_not_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "verify", str(tmp_path)]) == 3
    assert "no archived files and no batch records" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("x.parquet", b"", "is not in a directory topic=…/day=…"),
        ("topic=t/day=d/x.parquet", b"nonsense", "cannot be read"),
    ],
)
def test_invalid_archive_is_rejected(tmp_path: Path, name: str, content: bytes, error: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CannotReadArchive, match=error):
        verify(tmp_path, None)
    with pytest.raises(CannotReadArchive, match="is not a directory"):
        verify(tmp_path / "nowhere", None)


def test_files_of_a_delta_table_are_those_of_its_log(tmp_path: Path) -> None:
    for name in ("old", "new", "never-committed"):
        write_offsets(tmp_path, (0, [0, 1]), name=name)
    log = tmp_path / "_delta_log"
    log.mkdir()
    path = "topic=trucks/day=2026-11-18/{}.parquet"
    added, removed = ({word: {"path": path.format("old")}} for word in ("add", "remove"))
    (log / f"{0:020}.json").write_text(json.dumps({"protocol": {}}) + "\n" + json.dumps(added))
    newer = [removed, {"add": {"path": path.format("new")}}]
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, newer)))
    assert [file.path.stem for file in archived_files(tmp_path)] == ["new"]


def produce_transactions(kafka: Broker) -> None:
    """Writes offsets 0 to 2 committed, marker, 4 and 5 aborted, marker, 7 committed, marker."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions(60)
    for count, is_committed in ((3, True), (2, False), (1, True)):
        producer.begin_transaction()
        for _ in range(count):
            producer.produce("trucks", b"x", partition=0)
        producer.flush()
        end = producer.commit_transaction if is_committed else producer.abort_transaction
        end(60)


@pytest.mark.parametrize(
    ("offsets", "options", "exit_code"),
    [
        ([0, 1, 2, 7], "--complete", 0),
        ([0, 2, 7], "--complete", 1),
        ([0, 1, 2], "--json", 0),
        ([0, 1, 2], "--complete", 1),
    ],
)
def test_markers_and_aborted_records_are_not_losses(
    kafka: Broker, tmp_path: Path, offsets: Sequence[int], options: str, exit_code: int
) -> None:
    kafka.create_topics({"trucks": 2})
    produce_transactions(kafka)
    write_offsets(tmp_path, (0, offsets))
    command = ["pipeline", "verify", str(tmp_path), "--bootstrap", kafka.bootstrap, options]
    assert main(command) == exit_code


def test_end_of_a_topic_is_after_an_open_transaction(kafka: Broker, tmp_path: Path) -> None:
    kafka.create_topics({"trucks": 1})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce("trucks", b"x", partition=0)
    producer.flush()
    write_offsets(tmp_path, (0, range(5)))
    assert main(["pipeline", "verify", str(tmp_path), "--bootstrap", kafka.bootstrap]) == 0
    producer.abort_transaction(60)


def test_close_gaps_are_read_without_seek(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create_topics({"trucks": 2})
    produce_transactions(kafka)
    spans = [OffsetRange(*span) for span in ((0, 0), (1, 1), (3, 3), (4, 6), (5, 7), (8, 8))]
    expected = [0, 1, None, None, 7, None]
    for near in (5000, 0, -1):
        monkeypatch.setattr(verify_broker, "SKIP_OFFSETS_MIN", near)
        with verify_broker.cluster(kafka.bootstrap, {}) as topics:
            assert topics.first_records("trucks", 0, spans) == expected
            assert topics.first_records("trucks", 0, []) == []


def test_missing_offsets_are_named(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.create_topics({"trucks": 2})
    produce_transactions(kafka)
    write_offsets(tmp_path, (0, [0, 2]))
    assert main(["pipeline", "verify", str(tmp_path), "--bootstrap", kafka.bootstrap]) == 1
    output = capsys.readouterr().out
    assert "broken, 2 records" in output
    assert "trucks-0: missing: offset 1; the topic has a record at 1" in output


def test_gap_without_a_broker_is_unproved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_offsets(tmp_path, (0, [0, 2]))
    assert main(["pipeline", "verify", str(tmp_path), "--json"]) == 3
    (document,) = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "unproved"
    assert main(["pipeline", "verify", str(tmp_path / "nothing")]) == 2
    assert "no archive directory and no pipeline file at this path" in capsys.readouterr().err


def test_archive_at_a_url_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["verify", "s3a://b/lake"], ["replay", "s3a://b/lake", "trucks", "--to", "x"]):
        assert main(["pipeline", *command]) == 2
        assert "is not a local directory" in capsys.readouterr().err
