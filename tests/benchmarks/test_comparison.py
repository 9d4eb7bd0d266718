"""Medians, ratios and bars."""

import pytest

from benchmarks.bars import BARS, judge
from benchmarks.clients.pipelined_connections import quantile
from benchmarks.measurement import APACHE, PYKBROKER, Case, Comparison, Measurement, compare

P50 = Case("one-record", "1 connection, depth 1", "p50", "us")
THROUGHPUT = P50._replace(metric="throughput", unit="requests/s")
CLIENT_BUSY = P50._replace(metric="client busy", unit="cores")
WARM = Case("start", "warm, no data", "start to first Metadata", "s")


def measured(broker: str, round_number: int, value: float) -> Measurement:
    return Measurement(case=P50, broker=broker, round=round_number, value=value, load_average=1.0)


def compared(case: Case, pykbroker: float | None, apache: float | None) -> Comparison:
    return Comparison(
        case=case, pykbroker=pykbroker, apache=apache, round_ratios=(), load_average=1.0
    )


def test_ratio_of_medians_ignores_one_bad_round() -> None:
    ours = [measured(PYKBROKER, number, value) for number, value in enumerate([10, 12, 900], 1)]
    theirs = [measured(APACHE, number, value) for number, value in enumerate([24, 20, 30], 1)]
    (comparison,) = compare([*ours, *theirs])
    assert comparison.ratio == pytest.approx(12 / 24)
    assert comparison.round_ratios == pytest.approx((10 / 24, 12 / 20, 900 / 30))


def test_missing_measurement_has_no_ratio() -> None:
    (comparison,) = compare([measured(APACHE, 1, 20)])
    assert comparison.pykbroker is None
    assert comparison.ratio is None
    assert [judgement.holds for judgement in judge([comparison])] == [None]


@pytest.mark.parametrize(
    ("comparison", "verdicts"),
    [
        (compared(P50, 69, 100), [True]),
        (compared(P50, 71, 100), [False]),
        (compared(THROUGHPUT, 100, 100), [True]),
        (compared(THROUGHPUT, 99, 100), [False]),
        (compared(WARM, 0.3, 6.0), [True, True]),
        (compared(WARM, 0.3, 4.0), [False, True]),
        (compared(WARM, 0.6, 60.0), [True, False]),
        (compared(P50._replace(metric="p99.9"), 500, 100), []),
    ],
)
def test_bars_limit_the_ratio_or_the_absolute_value(
    comparison: Comparison, verdicts: list[bool]
) -> None:
    assert [judgement.holds for judgement in judge([comparison])] == verdicts


@pytest.mark.parametrize(("busy", "note"), [(0.95, "client is the limit"), (0.5, "")])
def test_low_throughput_has_a_note_only_if_the_client_is_busy(busy: float, note: str) -> None:
    comparisons = [compared(THROUGHPUT, 90, 100), compared(CLIENT_BUSY, busy, busy)]
    assert [judgement.note for judgement in judge(comparisons)] == [note]


def test_every_bar_has_exactly_one_limit() -> None:
    assert all((bar.at_most is None) != (bar.at_least is None) for bar in BARS)


def test_quantiles_of_few_latencies_are_measured_values() -> None:
    assert [quantile([1000, 2000, 3000], share) for share in (0.5, 0.99, 0.999)] == [2.0, 3.0, 3.0]
