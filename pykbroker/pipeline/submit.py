"""What spark-submit is given: runs the declared pipeline of a file where Spark has been told."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from pykbroker.pipeline.declaration.problems import DeclarationRefused
from pykbroker.pipeline.declaration.reading import read_pipeline
from pykbroker.pipeline.fingerprint import DefinitionChanged
from pykbroker.pipeline.progress import Progress, progress_line
from pykbroker.pipeline.running.failures import CannotStart, PipelineFailed
from pykbroker.pipeline.running.program import run_program

EXIT_FAILED = 1
EXIT_CANNOT_START = 2


def main() -> int:
    """Exit code 0 after a clean end, 1 if a query failed, 2 if nothing was begun."""
    options = read_options()
    try:
        pipeline = read_pipeline(options.file)
        if options.bootstrap is not None:
            pipeline = replace(pipeline, bootstrap=options.bootstrap)
        directory = options.directory or options.file.absolute().parent
        run_program(pipeline, directory=directory, once=options.once, tell=tell)
    except (CannotStart, DeclarationRefused, DefinitionChanged) as reason:
        return complain(reason, EXIT_CANNOT_START)
    except PipelineFailed as reason:
        return complain(reason, EXIT_FAILED)
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="submit.py", allow_abbrev=False)
    parser.add_argument("file", type=Path, help="the declaration, in TOML")
    parser.add_argument("--once", action="store_true", help="read what is there, then end")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker (default: as declared)")
    parser.add_argument(
        "--directory", type=Path, help="where relative paths begin (default: where the file is)"
    )
    return parser.parse_args()


def tell(progress: Progress) -> None:
    print(progress_line(progress), flush=True)  # noqa: T201  # the output of a program


def complain(reason: Exception, exit_code: int) -> int:
    print(reason, file=sys.stderr)  # noqa: T201  # likewise
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
