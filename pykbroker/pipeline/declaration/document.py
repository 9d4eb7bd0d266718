"""Generates the tables of keys in docs/pipelines.md.

python -m pykbroker.pipeline.declaration.document docs/pipelines.md
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.declaration.reading import keys_of, required_keys
from pykbroker.pipeline.declaration.values import SECTIONS, Pipeline

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS: Final[Mapping[str, type]] = {"pipeline": Pipeline, **SECTIONS}
HEAD: Final = "| key | type | default | meaning |\n|---|---|---|---|\n"


def with_tables(page: str) -> str:
    """Returns the page with each table replaced, between the comments that name it."""
    for part, kind in PARTS.items():
        begin, end = f"<!-- keys of {part} -->\n", f"<!-- end of {part} -->"
        before, found_begin, rest = page.partition(begin)
        _, found_end, after = rest.partition(end)
        if found_begin and found_end:
            page = f"{before}{begin}\n{table_of(kind)}\n{end}{after}"
    return page


def table_of(kind: type) -> str:
    rows = [
        f"| `{name}` | {key.kind.words} | {default_of(kind, name)} | {key.meaning} |\n"
        for name, key in keys_of(kind).items()
    ]
    return HEAD + "".join(rows)


def default_of(kind: type, name: str) -> str:
    if name in required_keys(kind):
        return "required"
    default = next(it.default for it in fields(kind) if it.name == name)
    match default:
        case None | ():
            return ""
        case Enum():
            return f"`{default.value}`"
        case bool():
            return f"`{str(default).lower()}`"
        case _:
            return "" if default is MISSING else f"`{default}`"


def main() -> None:
    for file in map(Path, sys.argv[1:]):
        file.write_text(with_tables(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
