"""Fixtures for all tests, markers, skips for missing tools, and logs of failed tests."""

import gc
import logging
import os
import signal
import warnings
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from compat.apache import ApacheKafka, ApacheTools, WarmTools, install, message_definitions
from compat.missing_tool import MissingToolError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pykbroker.testing.simulation.controller_model import StartController

ORACLE_FIXTURES = {"apache", "apache_tools", "apache_message_definitions"}
SPARK_FIXTURES = {"spark", "spark_jars"}

# Spark's tests are short, so fast compilation by the JVM is better than good code.
SPARK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SPARK_SETTINGS = {"spark.driver.memory": "1g", "spark.log.level": "OFF"}

Logs = list[tuple[str, Callable[[], str]]]
LOGS: pytest.StashKey[Logs] = pytest.StashKey()
SPARK_RAN: pytest.StashKey[bool] = pytest.StashKey()
MISSING_TOOL = "missing tool"
"""Name of the report property of tests that were skipped because of a missing tool."""
REASON_CHARACTERS_MAX = 200

# A busy machine delays examples, so property tests have no time limits.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


def pytest_configure() -> None:
    """Restores the default handler of SIGINT, so that tests can interrupt their subprocesses.

    Background processes of a shell script ignore SIGINT, and their child processes inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around xdist, which reads the groups
def pytest_collection_modifyitems(
    items: list[pytest.Item], config: pytest.Config
) -> Generator[None, None, None]:
    """Marks tests that use Apache Kafka or Spark and groups them in one worker each for one JVM.

    Deselects tests marked `asked_for_by` unless their environment variable is set.
    """
    deselected = [it for it in items if _is_deselected(it)]
    items[:] = [it for it in items if it not in deselected]
    config.hook.pytest_deselected(items=deselected)
    with_xdist = config.pluginmanager.hasplugin("xdist")
    for item in items:
        if ORACLE_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.oracle)
        if SPARK_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)
        if with_xdist and item.get_closest_marker("oracle"):
            item.add_marker(pytest.mark.xdist_group("oracle"))
        if (
            with_xdist
            and SPARK_FIXTURES.intersection(getattr(item, "fixturenames", ()))
            and not item.get_closest_marker("oracle")
        ):
            item.add_marker(pytest.mark.xdist_group("spark"))
    yield
    for item in items:
        _restore_node_id(item)


def _is_deselected(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("asked_for_by")
    return mark is not None and not os.environ.get(mark.args[0])


def _restore_node_id(item: pytest.Item) -> None:
    """Copies the xdist group into the id: xdist 3.8 sets an attribute that pytest 9.2 ignores."""
    name = getattr(item, "_nodeid", "")
    if name.endswith("@spark") and item.nodeid != name:
        item._id = type(item._id).parse(name)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest reads an item's filters
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Ignores unclosed sockets of pyspark, which can be collected during later tests."""
    uses_spark = bool(SPARK_FIXTURES.intersection(getattr(item, "fixturenames", ())))
    if uses_spark or item.config.stash.get(SPARK_RAN, False):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips tests that raise MissingToolError; adds the logs of brokers to failed tests.

    With CI=true a missing tool fails the test.
    """
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if report.failed and isinstance(error, MissingToolError):
        if os.environ.get("CI") == "true":
            report.longrepr = f"{error.tool}: {error}"
            return report
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (path, line or 0, f"{error.tool}: {error}")
        report.user_properties.append((MISSING_TOOL, (error.tool, str(error))))
    if report.failed:
        report.sections += [(name, read()) for name, read in item.stash.get(LOGS, [])]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints one line per missing tool: the number of skipped tests and one reason."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.getreports("skipped"):
        for name, value in report.user_properties:
            if name == MISSING_TOOL:
                tool, reason = value
                reasons[tool].append(reason)
    if reasons:
        terminalreporter.section("tools missing on this machine")
    for tool, found in sorted(reasons.items()):
        reason = " ".join(found[0].split())[:REASON_CHARACTERS_MAX]
        tests = f"{len(found)} test{'s' * (len(found) != 1)}"
        terminalreporter.write_line(f"{tool}: {tests} skipped ({reason})")


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[LOGS] = []


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Commands that run in the test process configure the logging of that process."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    for handler in [it for it in root.handlers if it not in handlers]:
        root.removeHandler(handler)


@pytest.fixture
def show_on_failure(request: pytest.FixtureRequest) -> Callable[[str, Callable[[], str]], None]:
    """Returns a function that registers a text for the report, read only if the test fails."""

    def register(name: str, read: Callable[[], str]) -> None:
        request.node.stash[LOGS].append((name, read))

    return register


@pytest.fixture(scope="session")
def apache_tools() -> Iterator[ApacheTools]:
    """The console tools of Apache Kafka; the first use installs them."""
    install()
    with WarmTools.open() as tools:
        yield tools


@pytest.fixture(scope="session")
def apache_message_definitions() -> dict[str, str]:
    """The message definitions of Apache Kafka by name: JSON with comments."""
    install()
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


@pytest.fixture(scope="session")
def spark_jars() -> None:
    """Requires Java and the jars of Spark, for tests that start their own Spark."""
    from pykbroker.pipeline.jar_cache import JarsUnavailableError
    from pykbroker.pipeline.java import find_java
    from pykbroker.pipeline.spark_jars import find_jars

    if find_java() is None:
        raise MissingToolError("java", "Spark needs Java 17 or newer")
    try:
        find_jars()
    except JarsUnavailableError as missing:
        raise MissingToolError("mvn", str(missing)) from missing


@pytest.fixture(scope="session")
def _spark(
    pytestconfig: pytest.Config,
    spark_jars: None,  # noqa: ARG001  # requires Java and the jars
) -> Iterator["SparkSession"]:
    from pykbroker.pipeline.session import spark_session

    pytestconfig.stash[SPARK_RAN] = True
    session = spark_session(
        "tests", master="local[2]", settings=SPARK_SETTINGS, jvm_options=SPARK_JVM
    )
    yield session
    with _sockets_left_open():
        session.stop()


@pytest.fixture
def spark(_spark: "SparkSession") -> Iterator["SparkSession"]:
    """The Spark session of this process, with the Kafka connector."""
    yield _spark
    with _sockets_left_open():
        pass


@contextmanager
def _sockets_left_open() -> Iterator[None]:
    """Collects the unclosed sockets of pyspark without ResourceWarning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture
async def controller_model() -> AsyncIterator["StartController"]:
    """Starts KRaft-like controllers without Java; see `controller_model` in the simulation."""
    from pykbroker.testing.simulation.controller_model import RunningController

    started: list[RunningController] = []

    async def start(**options: object) -> RunningController:
        started.append(await RunningController.start(**options))
        return started[-1]

    yield start
    for controller in started:
        await controller.stop()
