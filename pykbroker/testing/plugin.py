"""The pytest plugin: a clean broker for every test that asks, and its story when one fails."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from pykbroker.testing.embedded import Broker

ASKED_BY = pytest.StashKey["Broker"]()

NAME_LETTERS_MAX = 80

MARKER = (
    "kafka(topics={name: partitions}, config={property: value}, as_version='3.9'): "
    "the topics that the broker of the `kafka` fixture begins with; with properties or a version "
    "of its own the test gets a broker of its own"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("kafka").addoption(
        "--kafka-keep-data",
        metavar="DIRECTORY",
        help="keep the broker's data of each failed test here, for `pykbroker serve --data`",
    )
    parser.getgroup("kafka").addoption(
        "--kafka-seed",
        metavar="NUMBER",
        type=int,
        help="play the simulation with this seed, as SIMULATION_SEED in the environment does",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    seed = config.getoption("--kafka-seed")
    if seed is not None:
        os.environ["SIMULATION_SEED"] = str(seed)


class Wishes(NamedTuple):
    """What a test's markers ask of its broker."""

    topics: dict[str, Any]
    config: dict[str, Any]
    as_version: str | None


@pytest.fixture(scope="session")
def kafka_config() -> dict[str, Any]:
    """Kafka's properties for the broker of the session; override it in a conftest."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_config: dict[str, Any]) -> Iterator[Broker]:
    """One broker for all tests of the process, as they leave it; `kafka` is the clean one."""
    from pykbroker.testing.embedded import Broker  # noqa: PLC0415  # only who asks pays

    with Broker(config=kafka_config) as broker:
        yield broker
        broker.faults.clear()  # the tests that asked for them have been told


@pytest.fixture
def kafka(request: pytest.FixtureRequest, kafka_config: dict[str, Any]) -> Iterator[Broker]:
    """A clean broker with the topics of the marker."""
    topics, config, as_version = wishes_of(request.node)
    if not config and as_version is None:
        shared: Broker = request.getfixturevalue("kafka_broker")
        clean(shared, topics)
        request.node.stash[ASKED_BY] = shared
        yield shared
        shared.faults.clear()  # they are no concern of the next test
        return
    from pykbroker.testing.embedded import Broker  # noqa: PLC0415  # only who asks pays

    with Broker(topics, {**kafka_config, **config}, as_version=as_version) as own:
        request.node.stash[ASKED_BY] = own
        yield own
        own.faults.clear()  # who asked for them has been told


def clean(shared: Broker, topics: Mapping[str, Any]) -> None:
    """A test may have stopped it, or left it unable to start."""
    from pykbroker.testing.async_broker import NotRunning  # noqa: PLC0415  # only who asks pays

    try:
        shared.reset(topics)
    except NotRunning:
        shared.stop()
        shared.start()
        shared.reset(topics)


def wishes_of(item: pytest.Item) -> Wishes:
    """Of all markers, added up; what stands nearer to the test goes before."""
    topics: dict[str, Any] = {}
    config: dict[str, Any] = {}
    as_version = None
    for marker in reversed(list(item.iter_markers("kafka"))):
        given = read_marker(*marker.args, **marker.kwargs)
        topics |= given.topics
        config |= given.config
        as_version = given.as_version or as_version
    return Wishes(topics, config, as_version)


def read_marker(
    topics: Any = (), *, config: Mapping[str, Any] | None = None, as_version: str | None = None
) -> Wishes:
    topics = [topics] if isinstance(topics, str) else topics
    named = topics if hasattr(topics, "items") else dict.fromkeys(topics, 1)
    return Wishes(dict(named), dict(config or {}), as_version)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Who takes the broker of the session as it is has asked for it, too."""
    try:
        yield
    finally:
        broker = getattr(item, "funcargs", {}).get("kafka_broker")
        if broker is not None:
            item.stash.setdefault(ASKED_BY, broker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The first that fails tells the story: a test, or the fixtures before and after it."""
    report = yield
    broker = item.stash.get(ASKED_BY, None)
    if broker is not None and report.failed:
        del item.stash[ASKED_BY]
        report.sections.append(("what the broker saw", story_of(broker) + kept_data(item, broker)))
    return report


def story_of(broker: Broker) -> str:
    """All of it, or its timeline if the broker is gone: stopped by the test, or not up again."""
    try:
        return broker.story()
    except Exception as reason:  # noqa: BLE001  # a report that fails ends all of pytest
        return f"{broker.timeline}\n(where topics and groups stand cannot be told: {reason})"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Faults end with the test; one that met nothing it was meant for fails it."""
    try:
        yield
        if ASKED_BY in item.stash:
            item.stash[ASKED_BY].faults.check()
    finally:
        if ASKED_BY in item.stash:
            item.stash[ASKED_BY].faults.clear()


def kept_data(item: pytest.Item, broker: Broker) -> str:
    """Where the data of a failed test was saved, if that was asked for."""
    asked = item.config.getoption("--kafka-keep-data")
    if not asked:
        return ""
    name = re.sub(r"[^\w.-]+", "-", item.nodeid.rpartition("/")[2]).strip("-")[:NAME_LETTERS_MAX]
    try:
        Path(asked).mkdir(parents=True, exist_ok=True)
        target = tempfile.mkdtemp(prefix=f"{name}-", dir=Path(asked).absolute())
        broker.save(target)
    except Exception as reason:  # noqa: BLE001  # likewise
        return f"\nits data could not be kept: {reason}"
    return f"\nits data is kept: pykbroker serve --data {target}"


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """How records differ from what was expected, record by record."""
    if op != "==" or "pykbroker.testing.rows" not in sys.modules:
        return None
    from pykbroker.testing.matchers import explain  # noqa: PLC0415  # only who compares pays

    return explain(left, right)
