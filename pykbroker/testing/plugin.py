"""The pytest plugin: a clean broker for each test, and its timeline in the report of a failure."""

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

BROKER_OF_TEST = pytest.StashKey["Broker"]()

NAME_LETTERS_MAX = 80

MARKER = (
    "kafka(topics={name: partitions}, config={property: value}, as_version='3.9'): "
    "topics to create for the `kafka` fixture; with config or as_version the test gets a separate "
    "broker"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("kafka").addoption(
        "--kafka-keep-data",
        metavar="DIRECTORY",
        help="Save the data of each failed test in DIRECTORY (for `pykbroker serve --data`)",
    )
    parser.getgroup("kafka").addoption(
        "--kafka-seed",
        metavar="NUMBER",
        type=int,
        help="Run simulations with this seed only, like the environment variable SIMULATION_SEED",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    seed = config.getoption("--kafka-seed")
    if seed is not None:
        os.environ["SIMULATION_SEED"] = str(seed)


class MarkerArguments(NamedTuple):
    """The combined arguments of a test's `kafka` markers."""

    topics: dict[str, Any]
    config: dict[str, Any]
    as_version: str | None


@pytest.fixture(scope="session")
def kafka_config() -> dict[str, Any]:
    """Kafka properties of the session's broker. Override this fixture in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_config: dict[str, Any]) -> Iterator[Broker]:
    """The broker of the session. It is not reset between tests, unlike `kafka`."""
    from pykbroker.testing.embedded import Broker  # noqa: PLC0415  # only tests with a broker pay

    with Broker(config=kafka_config) as broker:
        yield broker
        broker.faults.clear()  # unused faults have failed their tests already


@pytest.fixture
def kafka(request: pytest.FixtureRequest, kafka_config: dict[str, Any]) -> Iterator[Broker]:
    """A clean broker with the topics of the `kafka` marker."""
    topics, config, as_version = marker_arguments(request.node)
    if not config and as_version is None:
        shared: Broker = request.getfixturevalue("kafka_broker")
        reset(shared, topics)
        request.node.stash[BROKER_OF_TEST] = shared
        yield shared
        shared.faults.clear()  # the next test uses the same broker
        return
    from pykbroker.testing.embedded import Broker  # noqa: PLC0415  # only tests with a broker pay

    with Broker(topics, {**kafka_config, **config}, as_version=as_version) as own:
        request.node.stash[BROKER_OF_TEST] = own
        yield own
        own.faults.clear()  # unused faults have failed their tests already


def reset(shared: Broker, topics: Mapping[str, Any]) -> None:
    """Resets the broker. Starts it first if a test has stopped it or left it down."""
    from pykbroker.testing.async_broker import NotRunning  # noqa: PLC0415  # as above

    try:
        shared.reset(topics)
    except NotRunning:
        shared.stop()
        shared.start()
        shared.reset(topics)


def marker_arguments(item: pytest.Item) -> MarkerArguments:
    """Combines the markers of module, class and function. The innermost takes precedence."""
    topics: dict[str, Any] = {}
    config: dict[str, Any] = {}
    as_version = None
    for marker in reversed(list(item.iter_markers("kafka"))):
        given = read_marker(*marker.args, **marker.kwargs)
        topics |= given.topics
        config |= given.config
        as_version = given.as_version or as_version
    return MarkerArguments(topics, config, as_version)


def read_marker(
    topics: Any = (), *, config: Mapping[str, Any] | None = None, as_version: str | None = None
) -> MarkerArguments:
    topics = [topics] if isinstance(topics, str) else topics
    named = topics if hasattr(topics, "items") else dict.fromkeys(topics, 1)
    return MarkerArguments(dict(named), dict(config or {}), as_version)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Records the broker of a test that uses the fixture `kafka_broker` without `kafka`."""
    try:
        yield
    finally:
        broker = getattr(item, "funcargs", {}).get("kafka_broker")
        if broker is not None:
            item.stash.setdefault(BROKER_OF_TEST, broker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the timeline to the report of the first phase that fails: setup, call or teardown."""
    report = yield
    broker = item.stash.get(BROKER_OF_TEST, None)
    if broker is not None and report.failed:
        del item.stash[BROKER_OF_TEST]
        report.sections.append(("broker timeline", story_of(broker) + saved_data(item, broker)))
    return report


def story_of(broker: Broker) -> str:
    """The story, or only the timeline if the broker is stopped or down."""
    try:
        return broker.story()
    except Exception as reason:  # noqa: BLE001  # an exception in a report would end pytest
        return f"{broker.timeline}\n(offsets of topics and groups not available: {reason})"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Ends the faults of the test. A fault that was never applied fails the test."""
    try:
        yield
        if BROKER_OF_TEST in item.stash:
            item.stash[BROKER_OF_TEST].faults.check()
    finally:
        if BROKER_OF_TEST in item.stash:
            item.stash[BROKER_OF_TEST].faults.clear()


def saved_data(item: pytest.Item, broker: Broker) -> str:
    """Saves the data of a failed test for --kafka-keep-data and returns a line for the report."""
    parent = item.config.getoption("--kafka-keep-data")
    if not parent:
        return ""
    name = re.sub(r"[^\w.-]+", "-", item.nodeid.rpartition("/")[2]).strip("-")[:NAME_LETTERS_MAX]
    try:
        Path(parent).mkdir(parents=True, exist_ok=True)
        target = tempfile.mkdtemp(prefix=f"{name}-", dir=Path(parent).absolute())
        broker.save(target)
    except Exception as reason:  # noqa: BLE001  # as above
        return f"\nbroker data not saved: {reason}"
    return f"\nbroker data saved: pykbroker serve --data {target}"


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explains the difference of records from expected records."""
    if op != "==" or "pykbroker.testing.rows" not in sys.modules:
        return None
    from pykbroker.testing.matchers import explain  # noqa: PLC0415  # only failures pay

    return explain(left, right)
