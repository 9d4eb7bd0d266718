"""Rounds of one workload: both brokers in turn, each round beginning with the other one."""

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

# What a broker that cannot do a workload makes a client, a tool or a socket raise.
_FAILURES = (OSError, RuntimeError, ValueError, subprocess.SubprocessError, KafkaException)
WARM_UP = 0


@dataclass(slots=True)
class Results:
    """What all workloads gave so far."""

    measurements: list[Measurement] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Who is measured, how much, how often, and where their data goes."""

    rivals: Mapping[str, Rival]
    rounds: int
    warms_up: bool
    scale: Scale
    scratch: Path


def measure(workload: Workload, plan: Plan, results: Results) -> None:
    """Run a workload in all rounds; one that warms up does so in a round that does not count."""
    warms_up = plan.warms_up and (isinstance(workload, ServingWorkload) or workload.warms_up)
    with _workers(workload, plan, results) as workers:
        for number in range(WARM_UP if warms_up else WARM_UP + 1, plan.rounds + 1):
            for name in _turn(list(workers), number):
                _one_round(workload.name, name, number, workers[name], results)


@contextmanager
def _workers(workload: Workload, plan: Plan, results: Results) -> Iterator[dict[str, "_Worker"]]:
    """For each rival, what does one round of the work."""
    with ExitStack() as stack:
        workers: dict[str, _Worker] = {}
        for name, rival in plan.rivals.items():
            directory = plan.scratch / workload.name / name
            directory.mkdir(parents=True, exist_ok=True)
            if isinstance(workload, LifecycleWorkload):
                workers[name] = _Lifecycle(workload, rival, directory, plan.scale)
                continue
            try:
                broker = stack.enter_context(ended_after(rival.make(directory / "data")))
                broker.start()
            except _FAILURES as failure:
                results.failures.append(_failure(workload.name, name, WARM_UP, failure))
            else:
                workers[name] = _Serving(workload, broker, plan.scale)
        yield workers


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
    """Nobody is always the one who goes first."""
    return names if number % 2 == 0 else names[::-1]


def _failure(workload: str, broker: str, number: int, error: Exception) -> Failure:
    _say(f"round {number}: {broker}: {workload} failed: {error}")
    return Failure(workload=workload, broker=broker, round=number, reason=f"{error}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
