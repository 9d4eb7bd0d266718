"""Writes a table of the API versions of each Apache Kafka release, read from its jars.

python -m compat.releases.table > pykbroker/testing/profiles/apache_releases.csv
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pykbroker_protocol.api_keys import ApiKey

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 900
ALL = "all"

Ranges = dict[str, dict[str, str]]
"""Version ranges by name of API or feature, then by release."""


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        fetch(scratch)
        write(ranges_in(Path(scratch)))


def fetch(directory: str) -> None:
    """Downloads the jars of each release into its own directory."""
    command = ["mvn", "--quiet", "--batch-mode", "--file", str(HERE / "pom.xml")]
    command += ["dependency:copy", f"-Dreleases={directory}"]
    subprocess.run(command, check=True, timeout=TIMEOUT_SECONDS, stdout=sys.stderr)


def ranges_in(directory: Path) -> Ranges:
    releases = sorted(
        (it for it in directory.iterdir() if it.name != ALL), key=lambda it: order(it.name)
    )
    shared = os.pathsep.join(map(str, (directory / ALL).iterdir()))
    command = ["java", "-Xmx256m", "-cp", shared, str(HERE / "ApiRanges.java")]
    done = subprocess.run(
        [*command, *map(str, releases)],
        check=True,
        timeout=TIMEOUT_SECONDS,
        stdout=subprocess.PIPE,
        text=True,
    )
    ranges: Ranges = {}
    for line in done.stdout.splitlines():
        release, which, lowest, highest = line.split("\t")
        ranges.setdefault(name_of(which), {})[release] = f"{lowest}-{highest}"
    return ranges


def write(ranges: Ranges) -> None:
    """Writes APIs by key, then features by name. An empty cell means not supported."""
    releases = sorted({it for row in ranges.values() for it in row}, key=order)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["", *releases])
    for name in sorted(ranges, key=place):
        table.writerow([name, *(ranges[name].get(it, "") for it in releases)])


def name_of(which: str) -> str:
    """Returns the current name of an API, because releases named some APIs differently."""
    return ApiKey(int(which)).name if which.isdecimal() else which


def order(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def place(name: str) -> tuple[int, str]:
    return (ApiKey[name] if name in ApiKey.__members__ else max(ApiKey) + 1, name)


if __name__ == "__main__":
    main()
