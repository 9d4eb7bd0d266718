"""Rounds of a workload: both brokers in turn; the first broker alternates by round."""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from benchmarks import process_usage
from benchmarks.measurement import Case, Measurement, Sample
from benchmarks.report import Failure
from benchmarks.rivals import Broker, Rival, ended_after
from benchmarks.workloads.kinds import LifecycleWorkload, Scale, ServingWorkload, Workload

# Exceptions of clients, tools and sockets if a broker fails a workload.
_FAILURES = (OSError, RuntimeError, ValueError, subprocess.SubprocessError, KafkaException)
WARM_UP = 0


@dataclass(slots=True)
class Results:
    """Measurements and failures of all workloads."""

    measurements: list[Measurement] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Brokers, rounds, scale and data directory of a run."""

    rivals: Mapping[str, Rival]
    rounds: int
    warms_up: bool
    shares_brokers: bool
    scale: Scale
    scratch: Path


def measure(workloads: Sequence[Workload], plan: Plan, results: Results) -> None:
    """Runs all rounds of each workload. Workloads on running brokers come first."""
    serving = [it for it in workloads if isinstance(it, ServingWorkload)]
    for together in [serving] if plan.shares_brokers and serving else [[it] for it in serving]:
        with _brokers(together, plan, results) as brokers:
            for workload in together:
                on = {name: _Serving(workload, it, plan.scale) for name, it in brokers.items()}
                _all_rounds(workload.name, on, plan, results, warms_up=True)
    for lifecycle in (it for it in workloads if isinstance(it, LifecycleWorkload)):
        with _directories(lifecycle.name, plan) as directories:
            of = {
                name: _Lifecycle(lifecycle, plan.rivals[name], it, plan.scale)
                for name, it in directories.items()
            }
            _all_rounds(lifecycle.name, of, plan, results, warms_up=lifecycle.warms_up)


def _all_rounds(
    workload: str,
    workers: Mapping[str, "_Worker"],
    plan: Plan,
    results: Results,
    *,
    warms_up: bool,
) -> None:
    """Runs the warm-up round, which is not measured, and all rounds."""
    first = WARM_UP if warms_up and plan.warms_up else WARM_UP + 1
    for number in range(first, plan.rounds + 1):
        for name in _turn(list(workers), number):
            _one_round(workload, name, number, workers[name], results)


@contextmanager
def _brokers(
    workloads: Sequence[ServingWorkload], plan: Plan, results: Results
) -> Iterator[dict[str, Broker]]:
    """Starts the brokers that the workloads share; omits brokers that fail to start."""
    with _directories(workloads[0].name, plan) as directories, ExitStack() as stack:
        brokers: dict[str, Broker] = {}
        for name, directory in directories.items():
            try:
                broker = stack.enter_context(
                    ended_after(plan.rivals[name].make(directory / "data"))
                )
                broker.start()
            except _FAILURES as failure:
                results.failures += [_failure(it.name, name, WARM_UP, failure) for it in workloads]
            else:
                brokers[name] = broker
        yield brokers


@contextmanager
def _directories(workload: str, plan: Plan) -> Iterator[dict[str, Path]]:
    """Creates a data directory for each broker, used in all rounds."""
    directories = {name: plan.scratch / workload / name for name in plan.rivals}
    for directory in directories.values():
        directory.mkdir(parents=True)
    try:
        yield directories
    finally:
        shutil.rmtree(plan.scratch / workload)


@dataclass(frozen=True, slots=True)
class _Serving:
    workload: ServingWorkload
    broker: Broker
    scale: Scale

    def __call__(self) -> Iterable[Sample]:
        return self.workload.run(self.broker, self.scale)


@dataclass(frozen=True, slots=True)
class _Lifecycle:
    workload: LifecycleWorkload
    rival: Rival
    directory: Path
    scale: Scale

    def __call__(self) -> Iterable[Sample]:
        return self.workload.run(self.rival, self.directory, self.scale)


_Worker = _Serving | _Lifecycle


def _one_round(workload: str, broker: str, number: int, worker: _Worker, results: Results) -> None:
    try:
        for sample in worker():
            case = Case(workload, sample.case, sample.metric, sample.unit)
            _say(f"round {number}: {broker}: {', '.join(case[:3])}: {sample.value:.4g} {case.unit}")
            if number > WARM_UP:
                results.measurements.append(
                    Measurement(
                        case=case,
                        broker=broker,
                        round=number,
                        value=sample.value,
                        load_average=process_usage.load_average(),
                    )
                )
    except _FAILURES as failure:
        results.failures.append(_failure(workload, broker, number, failure))


def _turn(names: Sequence[str], number: int) -> Sequence[str]:
    """Alternates the order of the brokers by round."""
    return names if number % 2 == 0 else names[::-1]


def _failure(workload: str, broker: str, number: int, error: Exception) -> Failure:
    _say(f"round {number}: {broker}: {workload} failed: {error}")
    return Failure(workload=workload, broker=broker, round=number, reason=f"{error}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
