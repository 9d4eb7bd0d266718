"""The read-ahead requests the files that a start imports."""

import asyncio
import sys
from pathlib import Path

import pytest

import pykbroker.broker
from benchmarks.start_files import loaded_by_a_start
from pykbroker.cli import read_ahead as module
from pykbroker.cli.read_ahead import known_modules, paths_of, read_ahead

TOLERANCE = 0.05
"""Accepted share of wrong entries; a single file has no measurable effect on the start."""


def test_the_list_matches_the_imports_of_a_start() -> None:
    """If this fails: `python -m benchmarks.start_files`."""
    loaded = set(loaded_by_a_start())
    # Some interpreters contain modules that are files in others.
    known = {it for it in known_modules() if it.rstrip("!") not in sys.builtin_module_names}
    assert len(loaded - known) <= TOLERANCE * len(loaded), sorted(loaded - known)
    assert len(known - loaded) <= TOLERANCE * len(known), sorted(known - loaded)


def test_paths_are_those_of_compiled_modules() -> None:
    found = [Path(it) for it in paths_of(["asyncio.", "asyncio.runners", "pykbroker.broker"])]
    standard = Path(asyncio.__path__[0], "__pycache__")
    ours = Path(pykbroker.broker.__file__).resolve().parent / "__pycache__"
    assert [it.parent.resolve() for it in found] == [standard, standard, ours]
    names = [it.name.partition(".")[0] for it in found]
    assert names == ["__init__", "runners", "broker"]


def test_missing_files_are_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "known_modules", lambda: ["nowhere", "no.where.", "neither!"])
    monkeypatch.chdir(tmp_path)
    read_ahead()
