"""The command that fetches Spark's connector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.output import print_json
from pykbroker.cli.pipeline.needing_spark import needs_spark
from pykbroker.pipeline.connector import JarSet, find_jars
from pykbroker.pipeline.jars_unavailable import JarsUnavailableError

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.pipeline.connector import FoundJars


@needs_spark
def jars(options: Namespace) -> None:
    wanted = [JarSet.CONNECTOR, *map(JarSet, options.optional_jars)]
    try:
        found = find_jars(wanted, token_provider=options.token_provider)
    except JarsUnavailableError as reason:
        raise CommandFailed(str(reason)) from reason
    files = list(dict.fromkeys(str(file) for jars in found for file in jars.files))
    if options.json:
        print_json([document(jars) for jars in found])
    else:
        print(("," if options.commas else "\n").join(files))


def document(jars: FoundJars) -> dict[str, object]:
    return {
        "set": jars.jar_set.value,
        "from": jars.origin.value,
        "files": [str(file) for file in jars.files],
    }
