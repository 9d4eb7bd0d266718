"""Links between documents lead to a file that exists and to a heading in it; named files exist."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
NAMED_FILE: Final = re.compile(r"`([\w./…-]*/[\w.-]+\.(?:py|toml|txt))`")
IS_EXTERNAL: Final = re.compile(r"[a-z]+:")


@cache
def files(pattern: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:  # an exported tree
        return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(f"[!.]*/**/{pattern}"))
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def documents() -> list[str]:
    return files("*.md")


@cache
def anchors(document: Path) -> frozenset[str]:
    """Returns the anchors of all headings, formed as GitHub and mkdocs form them."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    return frozenset(anchor(heading) for heading in HEADING.findall(text))


def anchor(heading: str) -> str:
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def broken_links(document: Path) -> Iterator[str]:
    for link in LINK.findall(CODE.sub("", document.read_text(encoding="utf-8"))):
        if IS_EXTERNAL.match(link):
            continue
        path, _, fragment = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists():
            yield f"{link}: no such file"
        elif fragment and fragment not in anchors(target):
            yield f"{link}: no such heading"


@pytest.mark.parametrize("document", documents())
def test_links_lead_to_existing_files_and_headings(document: str) -> None:
    assert not list(broken_links(ROOT / document))


@pytest.mark.parametrize("document", documents())
def test_files_named_in_a_document_exist(document: str) -> None:
    """`apis/produce.py` and `protocol/…/message.py` stand for any path with this end."""
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL)
    ends = {name.rpartition("…")[2].strip("/") for name in NAMED_FILE.findall(text)}
    paths = [f"/{path}" for path in files("*")]
    assert not [end for end in ends if not any(path.endswith(f"/{end}") for path in paths)]


def test_a_missing_file_and_a_missing_heading_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `heading`\n[a](#one-heading) [b](#two) [c](other.md) `[d](code.md)`\n")
    assert list(broken_links(page)) == ["#two: no such heading", "other.md: no such file"]
