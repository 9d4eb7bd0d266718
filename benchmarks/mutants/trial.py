"""A copy of the tree in which tests run with one mutation after the other."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.mutants.mutation import mutations_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.mutants.mutation import Mutation

ROOT = Path(__file__).parents[2]
COPIED = frozenset(
    ("pykbroker", "protocol", "storage", "tests", "compat", "benchmarks", "docs", "examples")
)
"""With all files of the top directory, which tests of documents read."""
FROM_THE_START = 1_000_000_000
"""Modification times of mutated files, one second apart: Python compares whole seconds."""


class Room(NamedTuple):
    source: str
    tests: str


ROOMS = {
    "storage": Room("storage/pykbroker_storage", "tests/storage"),
    "records": Room("protocol/pykbroker_protocol/records", "tests/protocol"),
    "partitions": Room("pykbroker/partitions", "tests/partitions"),
    "coordination": Room("pykbroker/coordination", "tests/coordination"),
    "coordinators": Room("pykbroker/coordinators", "tests/coordinators"),
    "controller": Room("pykbroker/controller", "tests/controller"),
    "apis": Room("pykbroker/apis", "tests/apis"),
    "transport": Room("pykbroker/transport", "tests/transport"),
}
EVERYWHERE = ("tests/simulation", "tests/testing_embedded")
"""Run after the tests of the room, which are faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    room: str
    file: str
    mutation: Mutation

    def __str__(self) -> str:
        return f"{self.file}:{self.mutation.line}: {self.mutation}"


def sample(
    rooms: Iterable[str], size: int, seed: int, root: Path = ROOT, only: str = ""
) -> list[Mutant]:
    """Returns a sample with equally many mutants per room; the seed determines it."""
    # Not a secret: the same seed selects the same sample.
    chance = random.Random(seed)
    piles = {room: all_mutants(room, root, only) for room in sorted(rooms)}
    for pile in piles.values():
        chance.shuffle(pile)
    chosen: list[Mutant] = []
    while len(chosen) < size and any(piles.values()):
        chosen += [pile.pop() for pile in piles.values() if pile][: size - len(chosen)]
    return chosen


def all_mutants(room: str, root: Path, only: str = "") -> list[Mutant]:
    files = sorted((root / ROOMS[room].source).rglob("*.py"))
    names = [str(path.relative_to(root)) for path in files]
    return [
        Mutant(room=room, file=name, mutation=mutation)
        for name in names
        if only in name
        for mutation in mutations_of((root / name).read_bytes())
    ]


SLOWER_MAX, SECONDS_LEAST = 3, 60
"""Time limit of a mutant: a multiple of the time without a mutation, plus a constant."""


class Trial:
    """The copy of the tree; runs tests in it."""

    def __init__(self, folder: Path, seconds_max: float, root: Path = ROOT) -> None:
        self.folder = folder
        self.seconds_max = seconds_max
        self.root = root
        self.seconds_of: dict[str, float] = {}
        """Time limits of tests that have passed without a mutation."""
        self._times = count(FROM_THE_START)

    def prepare(self) -> None:
        left_out = shutil.ignore_patterns("__pycache__", ".venv", ".git", ".*_cache", "build")
        for path in self.root.iterdir():
            if path.is_dir() and path.name in COPIED:
                shutil.copytree(path, self.folder / path.name, ignore=left_out)
            elif path.is_file():
                shutil.copy2(path, self.folder / path.name)

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.file
        source = path.read_bytes()
        self._write(path, mutant.mutation.applied(source))
        try:
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: bytes) -> None:
        """Sets a new modification time; with the same time and size Python reuses bytecode."""
        path.write_bytes(source)
        second = next(self._times)
        os.utime(path, (second, second))

    def detected_by(self, mutant: Mutant) -> str | None:
        """Returns the first tests that fail or time out with this mutant."""
        with self.mutated(mutant):
            for tests in (ROOMS[mutant.room].tests, *EVERYWHERE):
                if not self.passes(tests):
                    return tests
        return None

    def passes_without_mutation(self, tests: str) -> bool:
        """Runs the tests without a mutation; the duration determines the limit for mutants."""
        started = time.monotonic()
        passes = self.passes(tests)
        seconds = SLOWER_MAX * (time.monotonic() - started) + SECONDS_LEAST
        self.seconds_of[tests] = min(seconds, self.seconds_max)
        return passes

    def passes(self, tests: str) -> bool:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        seconds_max = self.seconds_of.get(tests, self.seconds_max)
        return self.run([*command, "-m", "not oracle and not slow", tests], seconds_max)

    def run(self, command: Sequence[str], seconds_max: float) -> bool:
        """Returns whether the command succeeds in time; then kills its process group."""
        paths = (self.folder / it for it in (".", "protocol", "storage"))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        with (
            (self.folder / "output").open("wb") as output,
            subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            try:
                return process.wait(seconds_max) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                end_group(process.pid)

    @property
    def last_output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")


def end_group(process_id: int) -> None:
    """Kills the remaining processes of a test run, such as brokers."""
    with suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)
