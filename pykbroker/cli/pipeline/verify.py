"""The command that proves archives whole."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from pykbroker.cli.failure import CannotBegin, CommandFailed, ExitCode
from pykbroker.cli.output import counted, print_json, table
from pykbroker.cli.pipeline.declared import base_directory, declared_pipeline
from pykbroker.cli.pipeline.mounted import mounted_directory
from pykbroker.pipeline.archive.archived_files import CannotReadArchive
from pykbroker.pipeline.places import Places
from pykbroker.pipeline.verify import Verdict
from pykbroker.pipeline.verify import verify as verify_archive
from pykbroker.pipeline.verify_broker import BrokerSilent, cluster

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from pykbroker.pipeline.verify import PartitionReport, Report

EXIT_CODES: Final = {
    Verdict.PROVED: ExitCode.OK,
    Verdict.UNPROVED: ExitCode.UNVERIFIED,
    Verdict.BROKEN: ExitCode.FAILED,
}
WORDS: Final = {
    Verdict.PROVED: "whole",
    Verdict.UNPROVED: "not all proved",
    Verdict.BROKEN: "broken",
}
HEADINGS: Final = ("PARTITION", "RECORDS", "FROM", "TO", "TOPIC ENDS", "BEHIND", "VERDICT")


def verify(options: Namespace) -> int:
    archives, bootstrap = places_of(options)
    reports = {archive: verified(archive, bootstrap, options) for archive in archives}
    if options.json:
        print_json([document(archive, report) for archive, report in reports.items()])
    else:
        print("\n\n".join(text_of(archive, report) for archive, report in reports.items()))
    if options.complete and any(it.is_behind for r in reports.values() for it in r.partitions):
        return ExitCode.FAILED
    return EXIT_CODES[max(report.verdict for report in reports.values())]


def places_of(options: Namespace) -> tuple[list[Path], str | None]:
    """The directories, and the broker to ask."""
    path = mounted_directory(options.path)
    try:
        mode = path.stat().st_mode
    except OSError as failure:
        raise CannotBegin("there is no such archive, and no such pipeline") from failure
    if S_ISDIR(mode):
        return [path], options.bootstrap
    options.file = options.path
    pipeline = declared_pipeline(options)
    places = Places(directory=base_directory(options))
    if not pipeline.archive:
        raise CannotBegin("this pipeline has no archive")
    archived = [places.place_of(archive.path) for archive in pipeline.archive.values()]
    return [mounted_directory(place) for place in archived], pipeline.bootstrap


def verified(archive: Path, bootstrap: str | None, options: Namespace) -> Report:
    try:
        asked = cluster(bootstrap, dict(options.properties)) if bootstrap else nullcontext()
        with asked as topics:
            return verify_archive(archive, topics, from_first_archived=options.from_first_archived)
    except (CannotReadArchive, BrokerSilent) as failure:
        raise CommandFailed(str(failure)) from failure
    except KafkaException as failure:
        raise CommandFailed(failure.args[0].str()) from failure


def text_of(archive: Path, report: Report) -> str:
    records = sum(it.records for it in report.partitions)
    lines = [f"{archive}: {WORDS[report.verdict]}, {counted(records, 'record')}"]
    lines += [f"recorded, but not in place: {file}" for file in report.unfinished]
    if not report.partitions:
        return f"{lines[0]}: no file of an archive, and no record of a batch"
    lines += [
        f"{it.topic}-{it.partition}: {finding.text}"
        for it in report.partitions
        for finding in it.findings
    ]
    return "\n".join((*lines, table(HEADINGS, map(row, report.partitions))))


def row(it: PartitionReport) -> tuple[object, ...]:
    last = None if it.next_offset is None else it.next_offset - 1
    behind = None if it.end is None else it.is_behind
    name = f"{it.topic}-{it.partition}"
    return (name, it.records, it.first, last, it.end, behind, WORDS[it.verdict])


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
