"""`pykbroker log dump`: prints the contents of files in a data directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands

ABOUT = """\
Print the contents of files in a data directory: log segments, indexes, producer
snapshots, leader epochs, checkpoints, the metadata log and its snapshots, and
meta.properties. A broker can be running on the directory; nothing is modified.

Verifies checksums. A corrupt file is printed up to the corruption, and the exit
code is 1."""


def declare(commands: Commands) -> None:
    log = commands.add_group("log", brief="Print and verify files of a data directory")
    dump = log.add(
        "dump",
        run="log_dump:dump",
        brief="Print and verify files of a data directory",
        about=ABOUT,
        examples=(
            "pykbroker log dump pykbroker-data/trucks-0/*",
            "pykbroker log dump --records pykbroker-data/trucks-0/00000000000000000000.log",
        ),
    )
    dump.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="Files and directories to print"
    )
    dump.add_argument("--records", action="store_true", help="Print the records of each batch")
    dump.add_argument("--json", action="store_true", help="Print one JSON object per line")
