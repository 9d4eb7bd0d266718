"""Runs one command: parses its options, calls its function, returns its exit code."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from pykbroker.cli.command_line import read_command_line
from pykbroker.cli.failure import CannotBegin, CommandFailed, ExitCode, SomeFailed

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence


def run_command(arguments: Sequence[str]) -> int:
    """Runs a command; an expected error is printed as one line on stderr, without a traceback."""
    try:
        options = read_command_line(arguments)
        return run_and_report(options)
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        with suppress(OSError):
            print(f"pykbroker: cannot write output: {problem.strerror}", file=sys.stderr)
        discard_stdout()
        return ExitCode.FAILED


def run_and_report(options: Namespace) -> int:
    escape_unencodable_output()
    try:
        exit_code = run(options)
        sys.stdout.flush()
    except CommandFailed as failure:
        with suppress(OSError):  # stderr may be on a full disk; the exit code remains
            print_error(options, failure)
        return failure.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        discard_stdout()
        return ExitCode.BROKEN_PIPE
    return exit_code


def run(options: Namespace) -> int:
    """Imports the module of the command and calls its function."""
    if options.requires:
        check_packages(options.requires)
    module, _, function = options.run.partition(":")
    gc.disable()  # imported objects stay; collections would take a tenth of the start time
    try:
        imported = import_module(f"pykbroker.cli.{module}")
    finally:
        gc.enable()
    exit_code: int | None = getattr(imported, function)(options)
    return exit_code or 0


def check_packages(names: Sequence[str]) -> None:
    """Raises CannotBegin if packages of the extra `spark` are not installed."""
    from importlib.util import find_spec  # noqa: PLC0415  # most commands do not need it

    from pykbroker.extras import how_to_install  # noqa: PLC0415  # likewise

    missing = [name for name in names if find_spec(name.replace("-", "_")) is None]
    if missing:
        raise CannotBegin(f"not installed: {', '.join(missing)}; {how_to_install('spark')}")


def escape_unencodable_output() -> None:
    """Escapes characters that stdout and stderr cannot encode, such as undecodable file names."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def print_error(options: Namespace, failure: CommandFailed) -> None:
    """Prints a line such as `topics create trucks: TOPIC_ALREADY_EXISTS: ...` for each error."""
    command = " ".join((options.command, *(getattr(options, name) for name in options.subject)))
    if isinstance(failure, SomeFailed):
        for error in failure.errors:
            print(f"{command} {error}", file=sys.stderr)
    else:
        print(f"{command}: {failure}", file=sys.stderr)


def discard_stdout() -> None:
    """Redirects stdout to the null device, so that the flush at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
