"""The commands `pipeline verify` and `pipeline replay`, which read archives without Spark."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from pykbroker.cli.failure import CannotBegin, CommandFailed, ExitCode
from pykbroker.cli.output import Progress, counted, print_json, table
from pykbroker.cli.pipeline.pipeline_file import base_directory, pipeline_of
from pykbroker.pipeline.archive.archived_files import CannotReadArchive
from pykbroker.pipeline.checkpoint import local_directory
from pykbroker.pipeline.locations import Locations
from pykbroker.pipeline.replay import CannotReplay, Replay
from pykbroker.pipeline.replay import replay as replay_archive
from pykbroker.pipeline.topic_target import CannotPublish, TopicTarget
from pykbroker.pipeline.verify import Verdict
from pykbroker.pipeline.verify import verify as verify_archive
from pykbroker.pipeline.verify_broker import BrokerUnavailable, cluster

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from pykbroker.pipeline.verify import PartitionReport, Report

EXIT_CODES: Final = {
    Verdict.PROVED: ExitCode.OK,
    Verdict.UNPROVED: ExitCode.UNVERIFIED,
    Verdict.BROKEN: ExitCode.FAILED,
}
VERDICT_TEXTS: Final = {
    Verdict.PROVED: "complete",
    Verdict.UNPROVED: "not fully verified",
    Verdict.BROKEN: "broken",
}
REPORT_HEADINGS: Final = ("PARTITION", "RECORDS", "FROM", "TO", "TOPIC ENDS", "BEHIND", "VERDICT")


def verify(options: Namespace) -> int:
    archives, bootstrap = archives_of(options)
    reports = {archive: report_of(archive, bootstrap, options) for archive in archives}
    if options.json:
        print_json([document(archive, report) for archive, report in reports.items()])
    else:
        print("\n\n".join(text_of(archive, report) for archive, report in reports.items()))
    if options.complete and any(it.is_behind for r in reports.values() for it in r.partitions):
        return ExitCode.FAILED
    return EXIT_CODES[max(report.verdict for report in reports.values())]


def archives_of(options: Namespace) -> tuple[list[Path], str | None]:
    """Returns the archive directories and the bootstrap brokers to compare them with."""
    path = mounted_directory(options.path)
    try:
        mode = path.stat().st_mode
    except OSError as failure:
        raise CannotBegin("no archive directory and no pipeline file at this path") from failure
    if S_ISDIR(mode):
        return [path], options.bootstrap
    options.file = options.path
    pipeline = pipeline_of(options)
    locations = Locations(directory=base_directory(options))
    if not pipeline.archive:
        raise CannotBegin(f"pipeline {pipeline.name!r} does not define an archive")
    paths = [locations.resolve(archive.path) for archive in pipeline.archive.values()]
    return [mounted_directory(path) for path in paths], pipeline.bootstrap


def report_of(archive: Path, bootstrap: str | None, options: Namespace) -> Report:
    try:
        client = cluster(bootstrap, dict(options.properties)) if bootstrap else nullcontext()
        with client as topics:
            return verify_archive(archive, topics, from_first_archived=options.from_first_archived)
    except (CannotReadArchive, BrokerUnavailable) as failure:
        raise CommandFailed(str(failure)) from failure
    except KafkaException as failure:
        raise CommandFailed(failure.args[0].str()) from failure


def text_of(archive: Path, report: Report) -> str:
    records = sum(it.records for it in report.partitions)
    lines = [f"{archive}: {VERDICT_TEXTS[report.verdict]}, {counted(records, 'record')}"]
    lines += [f"unfinished batch, file is missing: {file}" for file in report.unfinished]
    if not report.partitions:
        return f"{lines[0]}: no archived files and no batch records"
    lines += [
        f"{it.topic}-{it.partition}: {finding.text}"
        for it in report.partitions
        for finding in it.findings
    ]
    return "\n".join((*lines, table(REPORT_HEADINGS, map(row, report.partitions))))


def row(it: PartitionReport) -> tuple[object, ...]:
    last = None if it.next_offset is None else it.next_offset - 1
    behind = None if it.end is None else it.is_behind
    name = f"{it.topic}-{it.partition}"
    return (name, it.records, it.first, last, it.end, behind, VERDICT_TEXTS[it.verdict])


def document(archive: Path, report: Report) -> dict[str, Any]:
    return {
        "archive": str(archive),
        "verdict": report.verdict.name.lower(),
        "unfinished": list(report.unfinished),
        "partitions": [partition_document(it) for it in report.partitions],
    }


def partition_document(it: PartitionReport) -> dict[str, Any]:
    findings = [{"verdict": f.verdict.name.lower(), "text": f.text} for f in it.findings]
    return {**asdict(it), "verdict": it.verdict.name.lower(), "findings": findings}


def replay(options: Namespace) -> int:
    request = Replay(
        archive=mounted_directory(options.archive),
        topic=options.topic,
        target=TopicTarget(
            bootstrap=options.bootstrap, topic=options.to, settings=dict(options.properties)
        ),
        name=options.name or options.topic,
        since_ms=options.since,
        until_ms=options.until,
        has_place_headers=options.has_place_headers,
    )
    progress = Progress("record")
    try:
        count = replay_archive(request, progress=progress.show)
    except (CannotReadArchive, CannotReplay, CannotPublish) as failure:
        raise CommandFailed(str(failure)) from failure
    except OSError as failure:
        raise CommandFailed(f"{failure.filename}: {failure.strerror}") from failure
    except KafkaException as failure:
        raise CommandFailed(failure.args[0].str()) from failure
    finally:
        progress.clear()
    if options.json:
        print_json({"topic": options.to, "name": request.name, "replayed": count})
    elif count:
        print(f"{counted(count, 'record')} replayed to {options.to}")
    else:
        print(f"nothing to replay: {request.name} is complete, use --name to start again")
    return 0


def mounted_directory(location: str) -> Path:
    directory = local_directory(location)
    if directory is None:
        raise CannotBegin(f"{location} is not a local directory; mount the archive to read it")
    return directory
