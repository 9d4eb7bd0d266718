"""Measurements of a benchmark, and the ratio of both brokers."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

PYKBROKER = "pykbroker"
APACHE = "apache"


class Case(NamedTuple):
    """Workload, case and metric of a number."""

    workload: str
    case: str
    metric: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A number reported by a workload."""

    case: str
    metric: str
    unit: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A number with broker, round and load of the machine."""

    case: Case
    broker: str
    round: int
    value: float
    load_average: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Medians of both brokers over all rounds; None for a broker without measurements."""

    case: Case
    pykbroker: float | None
    apache: float | None
    round_ratios: tuple[float, ...]
    load_average: float

    @property
    def ratio(self) -> float | None:
        if self.pykbroker is None or not self.apache:
            return None
        return self.pykbroker / self.apache


def compare(measurements: Iterable[Measurement]) -> list[Comparison]:
    """Returns one comparison per case, in the order of the first measurement."""
    by_case: dict[Case, list[Measurement]] = {}
    for measurement in measurements:
        by_case.setdefault(measurement.case, []).append(measurement)
    return [_comparison(case, measured) for case, measured in by_case.items()]


def _comparison(case: Case, measured: list[Measurement]) -> Comparison:
    values = {broker: _by_round(measured, broker) for broker in (PYKBROKER, APACHE)}
    rounds = sorted(values[PYKBROKER].keys() & values[APACHE].keys())
    ratios = [values[PYKBROKER][r] / values[APACHE][r] for r in rounds if values[APACHE][r]]
    return Comparison(
        case=case,
        pykbroker=_median(values[PYKBROKER]),
        apache=_median(values[APACHE]),
        round_ratios=tuple(ratios),
        load_average=median(measurement.load_average for measurement in measured),
    )


def _by_round(measured: list[Measurement], broker: str) -> dict[int, float]:
    return {m.round: m.value for m in measured if m.broker == broker}


def _median(values: dict[int, float]) -> float | None:
    return median(values.values()) if values else None
