"""The location dashboard in a browser."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from examples.fleet.dashboard import GROUP, run
from examples.fleet.geography import CITIES, ROADS, ZONES
from examples.fleet.reports import TRUCKS
from examples.fleet.topics import ALERTS, NOTIFICATIONS, STATISTICS
from pykbroker import Row
from tests.examples.fleet_rows import TOPICS, alert, at, report, statistic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker import Broker
    from tests.examples.browser import Browser

pytestmark = pytest.mark.kafka(topics=TOPICS)

FLEET = [f"truck-{number:03}" for number in range(20)]
POLLS_MAX = 600
PHONE = {"width": 390, "height": 844}


@contextmanager
def shown(kafka: Broker) -> Iterator[str]:
    """Runs a dashboard and yields its URL."""
    loop = asyncio.new_event_loop()
    stopped = asyncio.Event()
    url: list[str] = []

    async def show() -> None:
        await run(kafka.bootstrap, stopped, ready=url.append)

    thread = Thread(target=lambda: loop.run_until_complete(show()))
    thread.start()
    try:
        while not url and thread.is_alive():
            thread.join(0.01)
        yield url[0]
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()


def trucks_shown(state: str) -> str:
    return f"document.querySelectorAll('.truck.{state}').length"


def text_of(selector: str) -> str:
    return f"document.querySelector({selector!r}).textContent"


def transform_of(truck: str) -> str:
    """Returns a script for the position of a truck on the page."""
    return f"document.querySelector('[data-truck={truck}]').style.transform"


def test_trucks_are_shown_moving_resting_and_silent(kafka: Broker, browser: Browser) -> None:
    with shown(kafka) as url:
        browser.open(url)
        kafka.produce(TRUCKS, [report(truck, 0) for truck in FLEET])
        browser.wait_for(f"{trucks_shown('moving')} === {len(FLEET)}")
        ulm = browser.evaluate(transform_of("truck-000"))

        kafka.produce(TRUCKS, [report("truck-000", 0.3, city="Berlin")])
        browser.wait_for(f"{transform_of('truck-000')} !== {ulm!r}")
        kafka.produce(TRUCKS, [report("truck-000", 0.6, city="Berlin", kmh=0)])
        browser.wait_for(f"{trucks_shown('resting')} === 1")

        kafka.produce(TRUCKS, [report(truck, 5) for truck in FLEET[1:]])
        browser.wait_for(f"{trucks_shown('silent')} === 1")
        assert browser.evaluate(text_of("#silences ul")) == "truck-000"
        assert browser.evaluate(text_of("#silent")) == "1"
        assert browser.evaluate(text_of("#clock")) == f"{at(5):%Y-%m-%d %H:%M} UTC"
        kafka.produce(TRUCKS, [report("truck-000", 5)])
        browser.wait_for(f"{trucks_shown('moving')} === {len(FLEET)}")
        assert browser.errors == []


def test_map_has_roads_cities_and_closed_zones(kafka: Broker, browser: Browser) -> None:
    with shown(kafka) as url:
        browser.open(url)
        browser.wait_for("document.querySelector('#connection').dataset.state === 'live'")
        drawn = {
            kind: browser.evaluate(f"document.querySelectorAll('.{kind}').length")
            for kind in ("border", "road", "city", "closed")
        }
        assert drawn == {
            "border": 1,
            "road": len(ROADS),
            "city": len(CITIES),
            "closed": len(ZONES),
        }


def test_statistics_alerts_and_notifications_are_shown(kafka: Broker, browser: Browser) -> None:
    with shown(kafka) as url:
        browser.open(url)
        browser.wait_for(f"{text_of('#statistics .none')}.includes('no statistics yet')")
        kafka.produce(STATISTICS, [statistic(truck, 0, kmh=70) for truck in FLEET])
        kafka.produce(STATISTICS, [statistic(truck, 5, kmh=60) for truck in FLEET])
        browser.wait_for("document.querySelectorAll('#chart rect').length === 2")
        browser.wait_for(f"{text_of('#window')}.includes('60 km/h on average')")

        notification = {"truck_id": "truck-1", "subject": "silence", "is_over": False}
        text = "<b>truck-1</b> has been silent"  # must be shown as text
        notification |= {"at": at(7).isoformat(), "text": text}
        kafka.produce(NOTIFICATIONS, [Row(notification, key="truck-1 silence")])
        browser.wait_for(f"{text_of('#news ol')}.includes({text!r})")
        kafka.produce(ALERTS, [alert("truck-1", 4)])
        browser.wait_for("document.querySelector('#alerts').dataset.drawn === '1'")
        assert browser.errors == []


def test_broken_records_are_counted_and_skipped(kafka: Broker, browser: Browser) -> None:
    with shown(kafka) as url:
        browser.open(url)
        kafka.produce(TRUCKS, [b"\x00\xff", b"", *[report(it, 0) for it in FLEET[:6]]])
        browser.wait_for(f"{text_of('#broken')} === '25.0 %'")
        assert browser.evaluate(trucks_shown("moving")) == 6


def test_restarted_dashboard_shows_all_trucks(kafka: Broker, browser: Browser) -> None:
    kafka.produce(TRUCKS, [report(truck, 0) for truck in FLEET])
    for _ in range(2):
        with shown(kafka) as url:
            browser.open(url)
            browser.wait_for(f"{trucks_shown('moving')} === {len(FLEET)}")


def test_page_is_updated_after_a_crash_of_the_broker(kafka: Broker, browser: Browser) -> None:
    with shown(kafka) as url:
        browser.open(url)
        kafka.produce(TRUCKS, [report(truck, 0) for truck in FLEET])
        browser.wait_for(f"{trucks_shown('moving')} === {len(FLEET)}")
        kafka.crash()
        kafka.produce(TRUCKS, [report(truck, 0.3, kmh=0) for truck in FLEET])
        browser.wait_for(f"{trucks_shown('resting')} === {len(FLEET)}")


def test_two_dashboards_share_the_trucks(kafka: Broker) -> None:
    kafka.produce(TRUCKS, [report(truck, 0) for truck in FLEET])
    with shown(kafka) as first, shown(kafka) as second:
        for _ in range(POLLS_MAX):
            here, there = trucks_in_first_event(first), trucks_in_first_event(second)
            if here and there and len(here) + len(there) == len(FLEET):
                break
            time.sleep(0.1)
        assert here | there == set(FLEET)


def trucks_in_first_event(url: str) -> set[str]:
    """Returns the trucks in the first event, which contains the whole state."""
    with urllib.request.urlopen(url + "events", timeout=60) as events:
        frame = json.loads(events.readline().removeprefix(b"data: "))
    return {truck for truck, *_ in frame["trucks"]}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_page_fits_a_phone_and_follows_its_color_scheme(
    kafka: Broker, browser: Browser, *, dark: bool
) -> None:
    with shown(kafka) as url:
        browser.open(url, **PHONE, dark=dark)
        kafka.produce(TRUCKS, [report(truck, 0) for truck in FLEET])
        browser.wait_for(f"{trucks_shown('moving')} === {len(FLEET)}")
        assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        lightness = sum(int(it) for it in background[4:-1].split(",")) / 3
        assert (lightness < 128) == dark


def test_group_commits_the_offsets_of_shown_records(kafka: Broker, browser: Browser) -> None:
    kafka.produce(TRUCKS, [report(truck, 0) for truck in FLEET])
    with shown(kafka) as url:
        browser.open(url)
        browser.wait_for(f"{trucks_shown('moving')} === {len(FLEET)}")
    committed = kafka.offsets(GROUP)
    assert sum(offset for (topic, _), offset in committed.items() if topic == TRUCKS) == 20


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/../web.py", "GET", 404), ("/nothing", "GET", 404), ("/", "POST", 405)],
)
def test_only_the_page_is_served(kafka: Broker, path: str, method: str, status: int) -> None:
    with shown(kafka) as url:
        request = urllib.request.Request(url.rstrip("/") + path, method=method)
        with pytest.raises(urllib.error.HTTPError) as response:
            urllib.request.urlopen(request, timeout=60)
    assert response.value.code == status
    response.value.close()
