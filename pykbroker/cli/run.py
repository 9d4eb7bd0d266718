"""One command: its words are read, one function works, an exit code ends it."""

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
from pykbroker.cli.failure import (
    EXIT_BROKEN_PIPE,
    EXIT_INTERRUPTED,
    EXIT_REFUSED,
    CommandFailed,
    RefusedEach,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence


def run_command(arguments: Sequence[str]) -> int:
    """Whatever goes wrong is one line on stderr, never a traceback."""
    try:
        options = read_command_line(arguments)
        return run_and_report(options)
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        with suppress(OSError):
            print(f"pykbroker: output cannot be written: {problem.strerror}", file=sys.stderr)
        forget_stdout()
        return EXIT_REFUSED


def run_and_report(options: Namespace) -> int:
    escape_what_cannot_be_shown()
    try:
        exit_code = run(options)
        sys.stdout.flush()
    except CommandFailed as failure:
        with suppress(OSError):  # stderr may be on a full disk; the exit code still tells
            complain(options, failure)
        return failure.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        forget_stdout()
        return EXIT_BROKEN_PIPE
    return exit_code


def run(options: Namespace) -> int:
    """Import the one module that the command needs, and call its function."""
    module, _, function = options.run.partition(":")
    gc.disable()  # what is imported stays: to search it for garbage is a tenth of a broker's start
    try:
        imported = import_module(f"pykbroker.cli.{module}")
    finally:
        gc.enable()
    exit_code: int | None = getattr(imported, function)(options)
    return exit_code or 0


def escape_what_cannot_be_shown() -> None:
    """Else printing fails on a file whose name is no text, and where a terminal lacks a sign."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def complain(options: Namespace, failure: CommandFailed) -> None:
    """`topics create trucks: TOPIC_ALREADY_EXISTS: ...`, a line for each thing refused."""
    what = " ".join((options.words, *(getattr(options, name) for name in options.subject)))
    if isinstance(failure, RefusedEach):
        for refusal in failure.refusals:
            print(f"{what} {refusal}", file=sys.stderr)
    else:
        print(f"{what}: {failure}", file=sys.stderr)


def forget_stdout() -> None:
    """Whoever read our output is gone; without this the interpreter complains at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
