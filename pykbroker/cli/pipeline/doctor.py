"""The command that says whether Spark can run here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pykbroker.cli.failure import ExitCode
from pykbroker.cli.output import print_json
from pykbroker.pipeline.connector import JarSet
from pykbroker.pipeline.doctor import findings
from pykbroker.pipeline.machine import this_machine

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.pipeline.doctor import Finding


def doctor(options: Namespace) -> int:
    """Exit code 0 if pipelines can run, 1 if something is missing."""
    jar_sets = [JarSet.CONNECTOR, *map(JarSet, options.optional_jars)]
    found = list(findings(this_machine(jar_sets)))
    if options.json:
        print_json([asdict(finding) for finding in found])
    else:
        print("\n".join(map(line, found)))
    return 0 if all(finding.is_fine for finding in found) else ExitCode.FAILED


def line(finding: Finding) -> str:
    mark = "ok     " if finding.is_fine else "missing"
    remedy = f"\n        {finding.remedy}" if finding.remedy else ""
    return f"{mark} {finding.about}: {finding.text}{remedy}"
