"""`python -m benchmarks`: measure both brokers and write the tables."""

import argparse
import shutil
import signal
import tempfile
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import report
from benchmarks.awake import processors_awake
from benchmarks.bars import judge
from benchmarks.measurement import compare
from benchmarks.rivals import as_installed, rivals
from benchmarks.rounds import Plan, Results, measure
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.kinds import FULL, QUICK

RESULTS = Path(__file__).with_name("results")


def main() -> None:
    asked = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leave no broker behind
    as_installed()
    began = datetime.now(tz=UTC)
    chosen = [workload for workload in WORKLOADS if not asked.only or workload.name in asked.only]
    results = Results()
    rounds = asked.rounds or (1 if asked.quick else 3)
    scratch = Path(tempfile.mkdtemp(prefix="pykbroker-bench-", dir=asked.scratch))
    try:
        plan = Plan(
            rivals={name: r for name, r in rivals().items() if asked.broker in (name, "both")},
            rounds=rounds,
            warms_up=not asked.quick,
            shares_brokers=asked.quick,
            scale=QUICK if asked.quick else FULL,
            scratch=scratch,
        )
        with nullcontext() if asked.sleepy else processors_awake():
            measure(chosen, plan, results)
    finally:
        shutil.rmtree(scratch)
    _write(results, began=began, rounds=rounds, scale="quick" if asked.quick else "full")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small amount of each work")
    parser.add_argument(
        "--only",
        action="append",
        choices=[workload.name for workload in WORKLOADS],
        help="one workload; may be repeated",
    )
    parser.add_argument("--rounds", type=int, help="rounds that count (default 3, quick 1)")
    parser.add_argument("--broker", choices=[*rivals(), "both"], default="both")
    parser.add_argument("--sleepy", action="store_true", help="let idle processors fall asleep")
    parser.add_argument("--scratch", type=Path, help="where the brokers' data goes meanwhile")
    return parser.parse_args()


def _write(results: Results, *, began: datetime, rounds: int, scale: str) -> None:
    comparisons = compare(results.measurements)
    run = report.Run(
        began=f"{began:%Y-%m-%d %H:%M} UTC",
        rounds=rounds,
        scale=scale,
        measurements=results.measurements,
        comparisons=comparisons,
        judgements=list(judge(comparisons)),
        failures=results.failures,
    )
    RESULTS.mkdir(exist_ok=True)
    text = report.markdown(run)
    stem = f"{began:%Y%m%dT%H%M%S}-{scale}"
    (RESULTS / f"{stem}.md").write_text(text)
    (RESULTS / f"{stem}.json").write_text(report.as_json(run))
    print(text)


if __name__ == "__main__":
    main()
