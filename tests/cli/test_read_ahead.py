"""A start asks for its files before it needs them: for those that it will need."""

import asyncio
import sys
from pathlib import Path

import pytest

import pykbroker.broker
from benchmarks.start_files import loaded_by_a_start
from pykbroker.cli import read_ahead as module
from pykbroker.cli.read_ahead import known_modules, paths_of, read_ahead

FEW = 0.05
"""Of all: one of these alone costs a start next to nothing."""


def test_nearly_all_that_a_start_loads_is_asked_for_and_little_else() -> None:
    """If this fails: `python -m benchmarks.start_files`."""
    loaded = set(loaded_by_a_start())
    # Some interpreters contain modules that are files in others.
    known = {it for it in known_modules() if it.rstrip("!") not in sys.builtin_module_names}
    assert len(loaded - known) <= FEW * len(loaded), sorted(loaded - known)
    assert len(known - loaded) <= FEW * len(known), sorted(known - loaded)


def test_a_module_is_compiled_in_a_folder_beside_it() -> None:
    found = [Path(it) for it in paths_of(["asyncio.", "asyncio.runners", "pykbroker.broker"])]
    standard = Path(asyncio.__path__[0], "__pycache__")
    ours = Path(pykbroker.broker.__file__).resolve().parent / "__pycache__"
    assert [it.parent.resolve() for it in found] == [standard, standard, ours]
    names = [it.name.partition(".")[0] for it in found]
    assert names == ["__init__", "runners", "broker"]


def test_what_is_not_there_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "known_modules", lambda: ["nowhere", "no.where.", "neither!"])
    monkeypatch.chdir(tmp_path)
    read_ahead()
