"""`make mutants`: the share of sampled mutants that tests detect, and the undetected ones."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.mutants.trial import EVERYWHERE, ROOMS, Trial, sample

if TYPE_CHECKING:
    from benchmarks.mutants.trial import Mutant

BAR = 0.95
"""Bar for relevant mutants; a reader decides which are relevant."""


def main() -> int:
    options = read_options()
    mutants = sample(options.rooms, options.count, options.seed, only=options.only)
    if options.list:
        print(*mutants, sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trial = Trial(Path(folder), options.seconds)
        trial.prepare()
        rooms = sorted({it.room for it in mutants})
        for tests in (*(ROOMS[room].tests for room in rooms), *EVERYWHERE):
            if not trial.passes_without_mutation(tests):
                print(trial.last_output[-3000:], file=sys.stderr)
                print(f"{tests}: fails without a mutation, or times out", file=sys.stderr)
                return 2
        survivors = try_all(trial, mutants)
    report(mutants, survivors, options.seed)
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="Sample of this number (default 1)")
    parser.add_argument("--count", type=int, default=24, help="Number of mutants (default 24)")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), metavar="ROOM")
    parser.add_argument("--only", default="", metavar="TEXT", help="Files with this in their path")
    parser.add_argument(
        "--seconds", type=float, default=1800, help="Limit of each run of tests (default 1800)"
    )
    parser.add_argument("--list", action="store_true", help="Print the sample and run nothing")
    return parser.parse_args()


def try_all(trial: Trial, mutants: list[Mutant]) -> list[Mutant]:
    survivors = []
    for number, mutant in enumerate(mutants, 1):
        started = time.monotonic()
        detected_by = trial.detected_by(mutant)
        if detected_by is None:
            survivors.append(mutant)
        seconds = time.monotonic() - started
        outcome = "NOT NOTICED" if detected_by is None else f"detected by {detected_by}"
        print(f"{number}/{len(mutants)} {mutant}\n    {outcome} ({seconds:.0f} s)", flush=True)
    return survivors


def report(mutants: list[Mutant], survivors: list[Mutant], seed: int) -> None:
    detected = len(mutants) - len(survivors)
    share = detected / max(len(mutants), 1)
    print(f"\nseed {seed}: {detected} of {len(mutants)} detected ({share:.0%}, bar {BAR:.0%})")
    for it in survivors:
        print(f"not detected: {it}")


if __name__ == "__main__":
    sys.exit(main())
