"""Reports of a run as Markdown and JSON."""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bars import Judgement
from benchmarks.measurement import Comparison, Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A workload that failed with a broker."""

    workload: str
    broker: str
    round: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All results of a run."""

    began: str
    rounds: int
    scale: str
    measurements: Sequence[Measurement]
    comparisons: Sequence[Comparison]
    judgements: Sequence[Judgement]
    failures: Sequence[Failure]


def machine() -> str:
    processor = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
    return f"{os.cpu_count()} cores ({processor}), Python {platform.python_version()}"


def markdown(run: Run) -> str:
    reading = (
        f"{machine()}; {run.rounds} rounds, scale {run.scale}. "
        "Medians; the ratio is PyKBroker's median divided by Apache Kafka's, "
        "the range is that of the ratios of the rounds. Load is the one-minute load average."
    )
    parts = [
        f"# Benchmark of {run.began}",
        reading,
        "\n".join(_comparison_table(run.comparisons)),
        "## Bars",
        "\n".join(_bar_table(run.judgements)),
    ]
    if run.failures:
        parts += ["## Not measured", "\n".join(_failure_lines(run.failures))]
    return "\n\n".join(parts) + "\n"


def as_json(run: Run) -> str:
    document = {
        "began": run.began,
        "machine": machine(),
        "rounds": run.rounds,
        "scale": run.scale,
        "comparisons": [
            {
                **c.case._asdict(),
                "pykbroker": c.pykbroker,
                "apache": c.apache,
                "ratio": c.ratio,
                "round_ratios": c.round_ratios,
            }
            for c in run.comparisons
        ],
        "bars": [
            {
                "promise": j.bar.promise,
                "limit": j.bar.limit,
                **j.comparison.case._asdict(),
                "value": j.value,
                "holds": j.holds,
                "note": j.note,
            }
            for j in run.judgements
        ],
        "measurements": [
            {
                **m.case._asdict(),
                "broker": m.broker,
                "round": m.round,
                "value": m.value,
                "load_average": m.load_average,
            }
            for m in run.measurements
        ],
        "failures": [
            {"workload": f.workload, "broker": f.broker, "round": f.round, "reason": f.reason}
            for f in run.failures
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _comparison_table(comparisons: Iterable[Comparison]) -> Iterable[str]:
    yield "| workload | case | metric | PyKBroker | Apache Kafka | ratio | range | load |"
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    for c in comparisons:
        yield (
            f"| {c.case.workload} | {c.case.case} | {c.case.metric}, {c.case.unit} "
            f"| {_number(c.pykbroker)} | {_number(c.apache)} | {_number(c.ratio)} "
            f"| {_range(c.round_ratios)} | {c.load_average:.1f} |"
        )


def _bar_table(judgements: Iterable[Judgement]) -> Iterable[str]:
    yield "| bar | case | limit | value | result |"
    yield "|---|---|--:|--:|---|"
    for j in judgements:
        named = j.comparison.case
        case = f"{named.workload}: {named.case}, {named.metric}"
        yield f"| {j.bar.promise} | {case} | {j.bar.limit} | {_number(j.value)} | {_verdict(j)} |"


def _failure_lines(failures: Iterable[Failure]) -> Iterable[str]:
    for f in failures:
        reason = f.reason.strip().splitlines()[-1] if f.reason.strip() else "no reason given"
        yield f"- {f.workload}, {f.broker}, round {f.round}: {reason}"


def _verdict(judgement: Judgement) -> str:
    if judgement.holds is None:
        return "not measured"
    if judgement.holds:
        return "met"
    return f"({judgement.note})" if judgement.note else "**missed**"


def _range(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
