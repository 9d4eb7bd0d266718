"""The command that runs a declared pipeline."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.cli.pipeline.declared import base_directory, declared_pipeline
from pykbroker.cli.pipeline.needing_spark import needs_spark
from pykbroker.pipeline.fingerprint import DefinitionChanged
from pykbroker.pipeline.jars_unavailable import JarsUnavailableError
from pykbroker.pipeline.progress import progress_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from pykbroker.pipeline.progress import Progress


@needs_spark
def run(options: Namespace) -> None:
    from pykbroker.pipeline.running.failures import (  # noqa: PLC0415  # needs Spark
        CannotStart,
        PipelineFailed,
    )
    from pykbroker.pipeline.running.program import run_program  # noqa: PLC0415  # likewise

    pipeline = declared_pipeline(options)
    try:
        run_program(
            pipeline,
            directory=base_directory(options),
            once=options.once,
            master=options.master,
            jars=Path(options.jars) if options.jars else None,
            tell=teller(options),
        )
    except (CannotStart, DefinitionChanged, JarsUnavailableError) as reason:
        raise CannotBegin(str(reason)) from reason
    except PipelineFailed as reason:
        raise CommandFailed(str(reason)) from reason


def teller(options: Namespace) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        print(dumps(asdict(progress)) if options.json else progress_line(progress), flush=True)

    return tell
