"""Simulated trucks: their records and routes are deterministic."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from examples.fleet.__main__ import main
from examples.fleet.geography import BORDER, CITIES, ROADS, ZONES, Point, Road
from examples.fleet.reports import REPORT_SECONDS, BrokenReport, Report, decode
from examples.fleet.simulator import LEAD_MAX, Plan, Transmission, departure_of, transmissions

DEPARTURE = datetime(2026, 5, 4, 6, 0, tzinfo=UTC)
WITHOUT_FAULTS = Plan(broken_share=0, silent_trucks=0)
TEN_WITHOUT_FAULTS = Plan(trucks=10, broken_share=0, silent_trucks=0)
ROUNDS_PER_HOUR = 180


def sent_by(plan: Plan, rounds: int) -> list[Transmission]:
    end = DEPARTURE + timedelta(seconds=rounds * REPORT_SECONDS)
    found: list[Transmission] = []
    for sent in transmissions(plan, DEPARTURE):
        if sent.at >= end:
            return found
        found.append(sent)
    raise AssertionError


def by_truck(sent: list[Transmission]) -> dict[str, list[Report]]:
    found: dict[str, list[Report]] = defaultdict(list)
    for it in sent:
        found[it.truck_id].append(decode(it.value))
    return found


def test_seed_determines_the_records() -> None:
    first = list(islice(transmissions(Plan(seed=7), DEPARTURE), 5000))
    assert first == list(islice(transmissions(Plan(seed=7), DEPARTURE), 5000))
    assert first != list(islice(transmissions(Plan(seed=8), DEPARTURE), 5000))


def test_route_of_a_truck_is_independent_of_the_fleet_size() -> None:
    small = by_truck(sent_by(Plan(trucks=3, broken_share=0, silent_trucks=0), 20))
    large = by_truck(sent_by(Plan(trucks=9, broken_share=0, silent_trucks=0), 20))
    assert small.keys() < large.keys()
    start = [small["truck-000"][0], large["truck-000"][0]]
    assert start[0] == start[1]


def test_fleet_may_be_smaller_than_the_number_of_silent_trucks() -> None:
    assert len(by_truck(sent_by(Plan(trucks=1, broken_share=0), 1))) == 1


@pytest.mark.parametrize("option", ["--trucks=0", "--trucks=x", "--speed=0", "--speed=nan"])
def test_invalid_options_are_rejected(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", option])
    assert f"argument {option.partition('=')[0]}: " in capsys.readouterr().err


def test_trucks_report_every_20_seconds_ordered_by_time() -> None:
    sent = sent_by(WITHOUT_FAULTS, 30)
    assert len(sent) == 100 * 30
    assert all(a.at <= b.at for a, b in pairwise(sent))
    for reports in by_truck(sent).values():
        gaps = {(b.reported_at - a.reported_at).total_seconds() for a, b in pairwise(reports)}
        assert gaps == {REPORT_SECONDS}


def test_trucks_move_at_their_reported_speed() -> None:
    for reports in by_truck(sent_by(TEN_WITHOUT_FAULTS, ROUNDS_PER_HOUR)).values():
        for a, b in pairwise(reports):
            if a.kmh and b.kmh:
                kmh = a.position.distance_km(b.position) / REPORT_SECONDS * 3600
                assert kmh <= 100


def test_trucks_stay_in_the_country() -> None:
    lats, lons = [it.lat for it in BORDER], [it.lon for it in BORDER]
    for sent in sent_by(TEN_WITHOUT_FAULTS, ROUNDS_PER_HOUR):
        position = decode(sent.value).position
        assert min(lats) < position.lat < max(lats)
        assert min(lons) < position.lon < max(lons)


def test_about_one_report_in_a_hundred_is_broken_in_several_ways() -> None:
    reasons: defaultdict[str, int] = defaultdict(int)
    sent = sent_by(Plan(silent_trucks=0), ROUNDS_PER_HOUR // 2)
    for it in sent:
        try:
            decode(it.value)
        except BrokenReport as broken:
            reasons[str(broken).split(":")[0].split(",")[0]] += 1
    assert 0.005 < sum(reasons.values()) / len(sent) < 0.012
    assert {"JSONDecodeError", "KeyError", "ValueError", "4811.5"} <= reasons.keys()


def test_some_trucks_are_silent_for_a_time() -> None:
    silent = set()
    for truck, reports in by_truck(
        sent_by(Plan(trucks=20, broken_share=0), 3 * ROUNDS_PER_HOUR)
    ).items():
        gaps_s = [(b.reported_at - a.reported_at).total_seconds() for a, b in pairwise(reports)]
        if max(gaps_s) > 60:
            silent.add(truck)
    assert len(silent) == 5


def test_trucks_visit_every_closed_zone() -> None:
    plan = Plan(seed=4, broken_share=0, silent_trucks=0)
    positions = [decode(it.value).position for it in sent_by(plan, ROUNDS_PER_HOUR // 6)]
    assert all(any(zone.contains(position) for position in positions) for zone in ZONES)


def test_all_cities_are_connected() -> None:
    reached = found = {"Berlin"}
    while found:
        found = {b for pair in ROADS for a, b in (pair, pair[::-1]) if a in reached} - reached
        reached = reached | found
    assert reached == set(CITIES)


def test_roads_are_equal_in_both_directions() -> None:
    for a, b in ROADS:
        there, back = Road(a, b).at(0.3), Road(b, a).at(0.7)
        assert there.distance_km(back) < 0.001
        assert Road(a, b).at(0) == CITIES[a]
        assert Road(a, b).at(1) == CITIES[b]


@pytest.mark.parametrize(
    ("to", "degrees"), [(Point(51, 10), 0), (Point(50, 11), 90), (Point(49, 10), 180)]
)
def test_distances_are_those_on_a_globe(to: Point, degrees: int) -> None:
    along_a_meridian = 111.2
    expected = along_a_meridian if degrees != 90 else along_a_meridian * 0.6428
    assert Point(50, 10).distance_km(to) == pytest.approx(expected, rel=0.001)


@pytest.mark.parametrize("speed", [1, 60, 1_000_000])
def test_reports_are_neither_in_the_future_nor_expired(speed: float) -> None:
    """A broker rejects the former and deletes the latter."""
    now = datetime(2026, 5, 4, tzinfo=UTC)
    assert timedelta() <= now - departure_of(speed, now) <= LEAD_MAX
