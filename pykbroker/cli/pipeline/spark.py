"""The commands `pipeline doctor`, `pipeline jars` and `pipeline run`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.cli.failure import CannotBegin, CommandFailed, ExitCode
from pykbroker.cli.output import print_json
from pykbroker.cli.pipeline.pipeline_file import base_directory, pipeline_of
from pykbroker.pipeline.doctor import findings
from pykbroker.pipeline.fingerprint import DefinitionChanged
from pykbroker.pipeline.jar_cache import JarsUnavailableError
from pykbroker.pipeline.machine_inspection import this_machine
from pykbroker.pipeline.progress import progress_line
from pykbroker.pipeline.spark_jars import JarSet, find_jars

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from pykbroker.pipeline.doctor import Finding
    from pykbroker.pipeline.progress import Progress
    from pykbroker.pipeline.spark_jars import FoundJars


def doctor(options: Namespace) -> int:
    """Returns exit code 0 if pipelines can run, 1 if something is missing."""
    jar_sets = [JarSet.CONNECTOR, *map(JarSet, options.optional_jars)]
    found = list(findings(this_machine(jar_sets)))
    if options.json:
        print_json([asdict(finding) for finding in found])
    else:
        print("\n".join(map(finding_line, found)))
    return 0 if all(finding.is_fine for finding in found) else ExitCode.FAILED


def finding_line(finding: Finding) -> str:
    mark = "ok     " if finding.is_fine else "missing"
    remedy = f"\n        {finding.remedy}" if finding.remedy else ""
    return f"{mark} {finding.about}: {finding.text}{remedy}"


def jars(options: Namespace) -> None:
    jar_sets = [JarSet.CONNECTOR, *map(JarSet, options.optional_jars)]
    try:
        found = find_jars(jar_sets, token_provider=options.token_provider)
    except JarsUnavailableError as reason:
        raise CommandFailed(str(reason)) from reason
    files = list(dict.fromkeys(str(file) for jars in found for file in jars.files))
    if options.json:
        print_json([jars_document(jars) for jars in found])
    else:
        print(("," if options.commas else "\n").join(files))


def jars_document(jars: FoundJars) -> dict[str, object]:
    return {
        "set": jars.jar_set.value,
        "from": jars.origin.value,
        "files": [str(file) for file in jars.files],
    }


def run(options: Namespace) -> None:
    from pykbroker.pipeline.running.failures import (  # noqa: PLC0415  # imports pyspark
        CannotStart,
        PipelineFailed,
    )
    from pykbroker.pipeline.running.program import run_program  # noqa: PLC0415  # likewise

    pipeline = pipeline_of(options)
    try:
        run_program(
            pipeline,
            directory=base_directory(options),
            once=options.once,
            master=options.master,
            jars=Path(options.jars) if options.jars else None,
            on_progress=progress_printer(options),
        )
    except (CannotStart, DefinitionChanged, JarsUnavailableError) as reason:
        raise CannotBegin(str(reason)) from reason
    except PipelineFailed as reason:
        raise CommandFailed(str(reason)) from reason


def progress_printer(options: Namespace) -> Callable[[Progress], None]:
    def print_progress(progress: Progress) -> None:
        print(json.dumps(asdict(progress)) if options.json else progress_line(progress), flush=True)

    return print_progress
