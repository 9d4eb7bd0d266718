"""`pykbroker log dump`: the files on disk, explained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands

ABOUT = """\
Explain files of a data directory: batches and records of a log, indexes, snapshots of
producers, leader epochs, checkpoints, the metadata log and its snapshots, meta.properties.

Checksums are verified; a damaged file is shown up to the damage, and the exit code is 1"""


def declare(commands: Commands) -> None:
    log = commands.add_group("log", brief="look into files on disk")
    dump = log.add(
        "dump",
        run="log_dump:dump",
        brief="explain the files of a data directory",
        about=ABOUT,
        examples=(
            "pykbroker log dump pykbroker-data/trucks-0/*",
            "pykbroker log dump --records pykbroker-data/trucks-0/00000000000000000000.log",
        ),
    )
    dump.add_argument("files", metavar="FILE", nargs="+", type=Path)
    dump.add_argument("--records", action="store_true", help="the records of each batch too")
    dump.add_argument("--json", action="store_true", help="print one JSON object per line")
