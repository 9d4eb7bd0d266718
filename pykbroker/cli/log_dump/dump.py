"""The command that explains files: finds them, chooses who explains each, prints what comes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.cli.log_dump.kinds import explain
from pykbroker.cli.output import bytes_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from pathlib import Path

    from pykbroker.cli.log_dump.finding import Finding


def dump(options: Namespace) -> int:
    damaged = 0
    for path in options.files:
        try:
            damaged += sum(dump_file(it, options) for it in files_of(path))
        except OSError as reason:
            raise CannotBegin(f"{reason.filename}: {reason.strerror}") from reason
    if damaged:
        raise CommandFailed(f"{damaged} damaged" if damaged > 1 else "the file is damaged")
    return 0


def files_of(path: Path) -> Iterator[Path]:
    """The file itself, or those within the directory."""
    if path.is_dir():
        yield from sorted(it for it in path.rglob("*") if it.is_file())
    else:
        yield path


def dump_file(path: Path, options: Namespace) -> bool:
    """Print what a file says; True if it is damaged."""
    size = path.stat().st_size
    kind, findings = explain(path, with_records=options.records)
    if not options.json:
        print(f"{path}: {kind}, {bytes_text(size)}")
    is_damaged = False
    for finding in findings:
        is_damaged = is_damaged or finding.is_damage
        print(json_line(path, finding) if options.json else f"  {finding.text}")
    return is_damaged


def json_line(path: Path, finding: Finding) -> str:
    document = {"file": str(path), "kind": finding.kind, **finding.document}
    return json.dumps(document, ensure_ascii=False)
