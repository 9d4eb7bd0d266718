"""Performance goals of PyKBroker, as ratios to Apache Kafka in the same run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.measurement import Comparison

# Above this CPU usage the client limits the throughput.
_CLIENT_IS_THE_LIMIT_CORES = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A limit for one metric of a workload, in some or all of its cases."""

    promise: str
    workload: str
    metric: str
    case_contains: str = ""
    at_most: float | None = None
    at_least: float | None = None
    absolute: bool = False  # limits PyKBroker's value instead of the ratio

    def covers(self, comparison: Comparison) -> bool:
        case = comparison.case
        named = (case.workload, case.metric) == (self.workload, self.metric)
        return named and self.case_contains in case.case

    def value_in(self, comparison: Comparison) -> float | None:
        return comparison.pykbroker if self.absolute else comparison.ratio

    @property
    def limit(self) -> str:
        bound = f"≤ {self.at_most:.3g}" if self.at_most is not None else f"≥ {self.at_least:.3g}"
        return bound if self.absolute else f"{bound} of Apache's"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of one case compared with a bar."""

    bar: Bar
    comparison: Comparison
    value: float | None
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """None if a broker has no measurement."""
        if self.value is None:
            return None
        if self.bar.at_most is not None:
            return self.value <= self.bar.at_most
        assert self.bar.at_least is not None
        return self.value >= self.bar.at_least


_CPU_PER_GB = "broker CPU per GB"
_THROUGHPUT = "throughput, unless the client is the limit"
_COMMITS = "offset commits"
_SPARK = "broker CPU while Spark reads"
_FLUSHING = "topic with flush.messages=1"
_SLOW_DISK = "produce while others use a slow disk"
_HOSTILE = "produce while another connection sends large requests"

BARS = (
    Bar(promise=_CPU_PER_GB, workload="librdkafka", metric="broker CPU per GB", at_most=0.6),
    Bar(promise=_CPU_PER_GB, workload="java", metric="broker CPU per GB", at_most=0.6),
    Bar(
        promise="CPU per one-record request",
        workload="one-record",
        metric="broker CPU per request",
        at_most=0.6,
    ),
    Bar(promise="p50 of one-record requests", workload="one-record", metric="p50", at_most=0.7),
    Bar(promise="p99 of one-record requests", workload="one-record", metric="p99", at_most=0.7),
    Bar(promise=_THROUGHPUT, workload="librdkafka", metric="throughput", at_least=1.0),
    Bar(promise=_THROUGHPUT, workload="java", metric="throughput", at_least=1.0),
    Bar(promise=_THROUGHPUT, workload="one-record", metric="throughput", at_least=1.0),
    Bar(
        promise="start to first Metadata",
        workload="start",
        metric="start to first Metadata",
        at_most=1 / 15,
    ),
    Bar(
        promise="warm start in seconds",
        workload="start",
        metric="start to first Metadata",
        case_contains="warm",
        at_most=0.5,
        absolute=True,
    ),
    Bar(
        promise="idle memory",
        workload="start",
        metric="resident memory",
        case_contains="idle",
        at_most=1 / 8,
    ),
    Bar(promise=_THROUGHPUT, workload="offset-commits", metric="throughput", at_least=1.0),
    Bar(promise=_COMMITS, workload="offset-commits", metric="p50", at_most=1.0),
    Bar(promise=_COMMITS, workload="offset-commits", metric="p99", at_most=1.0),
    Bar(promise=_COMMITS, workload="offset-commits", metric="broker CPU per request", at_most=1.0),
    Bar(
        promise="transactions",
        workload="transactions",
        metric="transactions",
        at_least=1.0,
    ),
    Bar(
        promise="produce during compaction",
        workload="compaction",
        metric="p99",
        case_contains="during compaction",
        at_most=1.0,
    ),
    Bar(
        promise="rebalance of a large group",
        workload="group-rebalance",
        metric="last join to stable",
        at_most=1.0,
    ),
    Bar(
        promise="memory of many groups",
        workload="many-groups",
        metric="memory per group",
        at_most=1.0,
    ),
    Bar(
        promise="loading many groups after a kill",
        workload="many-groups",
        metric="kill -9 to all groups' offsets",
        at_most=1.0,
    ),
    Bar(
        promise=_SPARK,
        workload="spark",
        metric="broker CPU",
        case_contains="default options",
        at_most=0.8,
    ),
    Bar(
        promise=_SPARK,
        workload="spark",
        metric="broker CPU",
        case_contains="tuned options",
        at_most=0.6,
    ),
    Bar(promise=_FLUSHING, workload="flushing", metric="throughput", at_least=1.0),
    Bar(promise=_FLUSHING, workload="flushing", metric="p99", at_most=1.0),
    Bar(
        promise=_SLOW_DISK,
        workload="slow-disk",
        metric="p99",
        case_contains="beside",
        at_most=0.5,
    ),
    Bar(promise=_HOSTILE, workload="hostile-requests", metric="p99", at_most=50.0, absolute=True),
    Bar(promise=_HOSTILE, workload="hostile-requests", metric="max", at_most=250.0, absolute=True),
    Bar(
        promise="broker CPU per replicated GB",
        workload="replication",
        metric="broker CPU per replicated GB",
        at_most=0.6,
    ),
    Bar(
        promise="memory of an idle member of a cluster",
        workload="member-memory",
        metric="resident memory",
        at_most=1 / 5,
    ),
    Bar(
        promise="failover",
        workload="failover",
        metric="kill -9 to acknowledgement",
        at_most=1.0,
    ),
    Bar(promise="wall time of Spark", workload="spark", metric="wall", at_most=1.05),
)


def judge(comparisons: Iterable[Comparison]) -> Iterator[Judgement]:
    compared = list(comparisons)
    for bar in BARS:
        for comparison in filter(bar.covers, compared):
            note = _client_limit(comparison, compared) if bar.promise == _THROUGHPUT else ""
            yield Judgement(
                bar=bar, comparison=comparison, value=bar.value_in(comparison), note=note
            )


def _client_limit(throughput: Comparison, compared: list[Comparison]) -> str:
    """Returns a note if the client was too busy for a higher throughput."""
    busy_case = throughput.case._replace(metric="client busy", unit="cores")
    for comparison in compared:
        if comparison.case == busy_case and comparison.pykbroker is not None:
            busy = comparison.pykbroker
            return "client is the limit" if busy >= _CLIENT_IS_THE_LIMIT_CORES else ""
    return ""
