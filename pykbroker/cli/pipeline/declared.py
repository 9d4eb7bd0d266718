"""What the commands share that take a declared pipeline: the file, and where its paths begin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.cli.failure import CannotBegin
from pykbroker.pipeline.declaration.problems import DeclarationRefused
from pykbroker.pipeline.declaration.reading import read_pipeline

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.pipeline.declaration.values import Pipeline


def declared_pipeline(options: Namespace) -> Pipeline:
    """The pipeline of the file; `--bootstrap` outweighs the address in it."""
    try:
        pipeline = read_pipeline(Path(options.file))
    except DeclarationRefused as refused:
        raise CannotBegin(with_each_on_a_line(refused)) from refused
    bootstrap = getattr(options, "bootstrap", None)
    return pipeline if bootstrap is None else replace(pipeline, bootstrap=bootstrap)


def with_each_on_a_line(refused: DeclarationRefused) -> str:
    problems = [str(problem) for problem in refused.problems]
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} mistakes\n" + "\n".join(f"  {problem}" for problem in problems)


def base_directory(options: Namespace) -> Path:
    """Where paths of the declaration begin: `--directory`, or where the file lies."""
    return Path(options.directory) if options.directory else Path(options.file).absolute().parent
