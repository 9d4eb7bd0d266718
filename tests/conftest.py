"""What every test may ask for: a real Apache Kafka to compare with, and logs when a test fails."""

import gc
import logging
import os
import signal
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from compat.apache import ApacheKafka, ApacheTools, WarmTools, install, message_definitions
from compat.missing_tool import MissingToolError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORACLE_FIXTURES = {"apache", "apache_tools", "apache_message_definitions"}
SPARK_FIXTURES = {"spark", "spark_jars"}

# Spark's tests are short: its JVM had better compile quickly than well.
SPARK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SPARK_SETTINGS = {"spark.driver.memory": "1g", "spark.log.level": "OFF"}

Logs = list[tuple[str, Callable[[], str]]]
LOGS: pytest.StashKey[Logs] = pytest.StashKey()
SPARK_RAN: pytest.StashKey[bool] = pytest.StashKey()
MISSING_TOOL = "missing tool"
"""Property of the report of a test that was skipped for lack of a tool."""
REASON_CHARACTERS_MAX = 200


def pytest_configure() -> None:
    """Programs that tests start and interrupt shall hear it, wherever the tests were started.

    What a script puts into the background ignores SIGINT, and so does all that it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around xdist, which reads the groups
def pytest_collection_modifyitems(
    items: list[pytest.Item], config: pytest.Config
) -> Generator[None, None, None]:
    """Whoever asks the oracle is marked so, and all of them share one JVM in one worker.

    Those who ask for Spark share another one. What takes many minutes waits to be asked for.
    """
    unasked = [it for it in items if _is_unasked(it)]
    items[:] = [it for it in items if it not in unasked]
    config.hook.pytest_deselected(items=unasked)
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
        _wear_the_group_of_spark(item)


def _is_unasked(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("asked_for_by")
    return mark is not None and not os.environ.get(mark.args[0])


def _wear_the_group_of_spark(item: pytest.Item) -> None:
    """xdist 3.8 writes a test's group where pytest 9.2 no longer looks for its name."""
    name = getattr(item, "_nodeid", "")
    if name.endswith("@spark") and item.nodeid != name:
        item._id = type(item._id).parse(name)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest reads an item's filters
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """pyspark leaves sockets to the garbage collector, which may come as late as tests later."""
    asks = bool(SPARK_FIXTURES.intersection(getattr(item, "fixturenames", ())))
    if asks or item.config.stash.get(SPARK_RAN, False):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that lacks a tool; add the logs of its brokers to a test that failed.

    A fixture or a test raises MissingToolError at any depth; nothing else decides about skipping.
    """
    report = yield
    lacks = call.excinfo.value if call.excinfo is not None else None
    if report.failed and isinstance(lacks, MissingToolError):
        if os.environ.get("CI") == "true":
            report.longrepr = f"{lacks.tool}: {lacks}"
            return report
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (path, line or 0, f"{lacks.tool}: {lacks}")
        report.user_properties.append((MISSING_TOOL, (lacks.tool, str(lacks))))
    if report.failed:
        report.sections += [(name, read()) for name, read in item.stash.get(LOGS, [])]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each missing tool: the number of tests that were skipped, and one reason."""
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
def _logging_as_before() -> Iterator[None]:
    """A command that runs in a test's process sets up the logging of the whole process."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    for handler in [it for it in root.handlers if it not in handlers]:
        root.removeHandler(handler)


@pytest.fixture
def show_on_failure(request: pytest.FixtureRequest) -> Callable[[str, Callable[[], str]], None]:
    """Register a text, read only when the test fails, to appear in its report."""

    def register(name: str, read: Callable[[], str]) -> None:
        request.node.stash[LOGS].append((name, read))

    return register


@pytest.fixture(scope="session")
def apache_tools() -> Iterator[ApacheTools]:
    """Apache Kafka's console tools; the first test that asks installs them."""
    install()
    with WarmTools.open() as tools:
        yield tools


@pytest.fixture(scope="session")
def apache_message_definitions() -> dict[str, str]:
    """Apache Kafka's message definitions, JSON with comments, by name."""
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
    """Java and the jars that Spark needs; for tests that start a Spark of their own."""
    from pykbroker.pipeline.connector import find_jars
    from pykbroker.pipeline.jars_unavailable import JarsUnavailableError
    from pykbroker.pipeline.java import find_java

    if find_java() is None:
        raise MissingToolError("java", "Spark needs Java 17 or newer")
    try:
        find_jars()
    except JarsUnavailableError as missing:
        raise MissingToolError("mvn", str(missing)) from missing


@pytest.fixture(scope="session")
def _spark(
    pytestconfig: pytest.Config,
    spark_jars: None,  # noqa: ARG001  # it is what Spark needs
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
    """The one Spark of this process, with the connector; missing Java or jars fail in CI."""
    yield _spark
    with _sockets_left_open():
        pass


@contextmanager
def _sockets_left_open() -> Iterator[None]:
    """pyspark leaves sockets to the garbage collector: let it find them where nobody minds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()
