"""Reads the pipeline file of a command; the command `pipeline explain`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.pipeline.declaration.problems import DeclarationRefused
from pykbroker.pipeline.declaration.reading import read_pipeline
from pykbroker.pipeline.diagram.page import page_of

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.pipeline.declaration.values import Pipeline


def explain(options: Namespace) -> None:
    page = page_of(pipeline_of(options))
    if options.output is None:
        sys.stdout.write(page)
        return
    try:
        Path(options.output).write_text(page, encoding="utf-8")
    except OSError as failure:
        raise CommandFailed(f"{options.output}: {failure.strerror}") from failure
    print(f"written to {options.output}")


def pipeline_of(options: Namespace) -> Pipeline:
    """Returns the pipeline of the file; `--bootstrap` overrides the address in it."""
    try:
        pipeline = read_pipeline(Path(options.file))
    except DeclarationRefused as refused:
        raise CannotBegin(problems_text(refused)) from refused
    bootstrap = getattr(options, "bootstrap", None)
    return pipeline if bootstrap is None else replace(pipeline, bootstrap=bootstrap)


def problems_text(refused: DeclarationRefused) -> str:
    problems = [str(problem) for problem in refused.problems]
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} errors\n" + "\n".join(f"  {problem}" for problem in problems)


def base_directory(options: Namespace) -> Path:
    """Returns the base of relative paths: `--directory`, or the directory of the file."""
    return Path(options.directory) if options.directory else Path(options.file).absolute().parent
