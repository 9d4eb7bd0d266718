"""The command `log dump`: prints the findings of files and directories."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.cli.log_dump.file_types import explain
from pykbroker.cli.output import bytes_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from pathlib import Path

    from pykbroker.cli.log_dump.finding import Finding


def dump(options: Namespace) -> int:
    corrupt: list[Path] = []
    count = 0
    for path in options.files:
        try:
            for file in files_of(path):
                count += 1
                if dump_file(file, options):
                    corrupt.append(file)
        except OSError as reason:
            if isinstance(reason, BrokenPipeError) or reason.errno == errno.ENOSPC:
                raise  # stdout, not the dumped file, caused it
            raise CannotBegin(f"{reason.filename or path}: {reason.strerror}") from reason
    if corrupt:
        raise CommandFailed(corruption_summary(corrupt, count))
    return 0


def corruption_summary(corrupt: list[Path], count: int) -> str:
    if len(corrupt) == 1:
        return f"{corrupt[0]} is corrupt"
    return f"{len(corrupt)} of {count} files are corrupt"


def files_of(path: Path) -> Iterator[Path]:
    """Returns the file, or all files below the directory."""
    if path.is_dir():
        yield from sorted(it for it in path.rglob("*") if it.is_file())
    else:
        yield path


def dump_file(path: Path, options: Namespace) -> bool:
    """Prints the findings of a file; returns True if it is corrupt."""
    size = path.stat().st_size
    kind, findings = explain(path, with_records=options.records)
    if not options.json:
        print(f"{path}: {kind}, {bytes_text(size)}")
    is_corrupt = False
    for finding in findings:
        is_corrupt = is_corrupt or finding.is_corruption
        print(json_line(path, finding) if options.json else f"  {finding.text}")
    return is_corrupt


def json_line(path: Path, finding: Finding) -> str:
    document = {"file": str(path), "kind": finding.kind, **finding.document}
    return json.dumps(document, ensure_ascii=False)
