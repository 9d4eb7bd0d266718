"""What every test may ask for: a real Apache Kafka to compare with, and logs when a test fails."""

import os
from collections.abc import Callable, Generator, Iterator

import pytest

from compat.apache import (
    ApacheKafka,
    ApacheKafkaUnavailableError,
    ApacheTools,
    WarmTools,
    install,
    message_definitions,
)

ORACLE_FIXTURES = {"apache", "apache_tools", "apache_message_definitions"}

Logs = list[tuple[str, Callable[[], str]]]
LOGS: pytest.StashKey[Logs] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Whoever asks the oracle is marked so, and all of them share one JVM in one worker."""
    with_xdist = config.pluginmanager.hasplugin("xdist")
    for item in items:
        if ORACLE_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.oracle)
        if with_xdist and item.get_closest_marker("oracle"):
            item.add_marker(pytest.mark.xdist_group("oracle"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what its brokers had to say."""
    report = yield
    if report.failed:
        report.sections += [(name, read()) for name, read in item.stash.get(LOGS, [])]
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[LOGS] = []


@pytest.fixture
def show_on_failure(request: pytest.FixtureRequest) -> Callable[[str, Callable[[], str]], None]:
    """Register a text, read only when the test fails, to appear in its report."""

    def register(name: str, read: Callable[[], str]) -> None:
        request.node.stash[LOGS].append((name, read))

    return register


@pytest.fixture(scope="session")
def apache_tools() -> Iterator[ApacheTools]:
    """Apache Kafka's console tools; the first test that asks installs them."""
    _require_apache()
    with WarmTools.open() as tools:
        yield tools


@pytest.fixture(scope="session")
def apache_message_definitions() -> dict[str, str]:
    """Apache Kafka's message definitions, JSON with comments, by name."""
    _require_apache()
    return message_definitions()


@pytest.fixture(scope="session")
def _apache_node(
    tmp_path_factory: pytest.TempPathFactory, apache_tools: ApacheTools
) -> Iterator[ApacheKafka]:
    data = tmp_path_factory.mktemp("apache") / "data"
    with ApacheKafka(data, heap="384m", tools=apache_tools) as node:
        yield node


@pytest.fixture
def apache(
    _apache_node: ApacheKafka, show_on_failure: Callable[[str, Callable[[], str]], None]
) -> ApacheKafka:
    """One Apache Kafka node, shared by all tests of the session."""
    show_on_failure("Apache Kafka", _apache_node.log_tail)
    if not _apache_node.is_running:
        _apache_node.start()
    return _apache_node


def _require_apache() -> None:
    try:
        install()
    except ApacheKafkaUnavailableError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
