"""Compares the line coverage of each package with its floor in coverage_floors.toml.

Packages are counted to two levels, such as `pykbroker.apis`, with all that is below them.
Exits with 1 if a package is below its floor, or has none.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from pathlib import Path

FLOORS = Path(__file__).with_name("coverage_floors.toml")


def package_of(path: str) -> str:
    """Returns the dotted package of a module: two levels at most, such as pykbroker.apis."""
    parts = Path(path).parts
    start = next(n for n, part in enumerate(parts) if part.startswith("pykbroker"))
    folders = parts[start:-1]
    return ".".join(folders[:2])


def main(report: str) -> int:
    files = json.loads(Path(report).read_text(encoding="utf-8"))["files"]
    floors: dict[str, float] = tomllib.loads(FLOORS.read_text(encoding="utf-8"))
    lines, covered = Counter[str](), Counter[str]()
    for path, entry in files.items():
        package = package_of(path)
        lines[package] += entry["summary"]["num_statements"]
        covered[package] += entry["summary"]["covered_lines"]
    status = 0
    for package in sorted(lines):
        percent = 100 * covered[package] / max(1, lines[package])
        floor = floors.get(package)
        is_low = floor is None or percent < floor
        status |= is_low
        mark = "  <-- below its floor" if is_low else ""
        sys.stdout.write(f"{package:<40} {percent:5.1f} %  floor {floor}{mark}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
