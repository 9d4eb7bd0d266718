"""Program for spark-submit: runs the pipeline of a file with the master of spark-submit."""

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
    """Returns exit code 0 after a clean end, 1 if a query failed, 2 if nothing was started."""
    options = read_options()
    try:
        pipeline = read_pipeline(options.file)
        if options.bootstrap is not None:
            pipeline = replace(pipeline, bootstrap=options.bootstrap)
        directory = options.directory or options.file.absolute().parent
        run_program(pipeline, directory=directory, once=options.once, on_progress=print_progress)
    except (CannotStart, DeclarationRefused, DefinitionChanged) as reason:
        return print_error(reason, EXIT_CANNOT_START)
    except PipelineFailed as reason:
        return print_error(reason, EXIT_FAILED)
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="submit.py", allow_abbrev=False)
    parser.add_argument("file", type=Path, help="Pipeline file (TOML)")
    parser.add_argument("--once", action="store_true", help="Process existing records, then exit")
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="Broker address (default: from the file)"
    )
    parser.add_argument(
        "--directory", type=Path, help="Base of relative paths (default: directory of the file)"
    )
    return parser.parse_args()


def print_progress(progress: Progress) -> None:
    print(progress_line(progress), flush=True)  # noqa: T201  # the output of a program


def print_error(reason: Exception, exit_code: int) -> int:
    print(reason, file=sys.stderr)  # noqa: T201  # likewise
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
