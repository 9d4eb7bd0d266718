"""Runs the same workloads with PyKBroker and Apache Kafka and prints the ratios."""

import argparse
import shutil
import signal
import tempfile
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import report
from benchmarks.bars import judge
from benchmarks.idle_prevention import processors_awake
from benchmarks.measurement import compare
from benchmarks.rivals import as_installed, rivals
from benchmarks.rounds import Plan, Results, measure
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.kinds import FULL, QUICK

RESULTS = Path(__file__).with_name("results")


def main() -> None:
    options = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops the brokers
    as_installed()
    began = datetime.now(tz=UTC)
    chosen = [
        workload for workload in WORKLOADS if not options.only or workload.name in options.only
    ]
    results = Results()
    rounds = options.rounds or (1 if options.quick else 3)
    scratch = Path(tempfile.mkdtemp(prefix="pykbroker-bench-", dir=options.scratch))
    try:
        plan = Plan(
            rivals={name: r for name, r in rivals().items() if options.broker in (name, "both")},
            rounds=rounds,
            warms_up=not options.quick,
            shares_brokers=options.quick,
            scale=QUICK if options.quick else FULL,
            scratch=scratch,
        )
        with nullcontext() if options.sleepy else processors_awake():
            measure(chosen, plan, results)
    finally:
        shutil.rmtree(scratch)
    _write(results, began=began, rounds=rounds, scale="quick" if options.quick else "full")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="Run each workload briefly")
    parser.add_argument(
        "--only",
        action="append",
        choices=[workload.name for workload in WORKLOADS],
        help="Run only this workload (repeatable)",
    )
    parser.add_argument(
        "--rounds", type=int, help="Number of measured rounds (default: 3, quick 1)"
    )
    parser.add_argument(
        "--broker",
        choices=[*rivals(), "both"],
        default="both",
        help="Measure only this broker (default: %(default)s)",
    )
    parser.add_argument(
        "--sleepy", action="store_true", help="Do not keep idle CPUs awake while measuring"
    )
    parser.add_argument("--scratch", type=Path, help="Parent of the temporary data directory")
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
