"""ARCHITECTURE.md lists the rooms of pyproject.toml, in the same order."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def rooms() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (it["layers"] for it in contracts if it.get("containers") == ["pykbroker"])
    return [it for it in layers if it != "__main__"]


def test_the_rooms_are_those_of_the_import_contract() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    named = [
        room for line in page for room in rooms() if line == room or line.startswith(f"{room}  ")
    ]
    assert named == rooms()
