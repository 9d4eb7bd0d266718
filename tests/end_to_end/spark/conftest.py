"""One broker of each kind, shared by all Spark scenarios; each scenario has its own topics."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from compat.apache import ApacheKafka, install
from compat.broker_process import BrokerProcess
from tests.end_to_end.spark.spark_fixture import SparkFixture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def _pykbroker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("spark") / "pykbroker") as broker:
        yield broker
    assert "Traceback (most recent call last)" not in broker.log()


@pytest.fixture(scope="session")
def _apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A separate node, because scenarios stop and kill it."""
    install()
    with ApacheKafka(tmp_path_factory.mktemp("spark") / "apache", heap="384m") as node:
        yield node


@pytest.fixture(scope="session")
def _spark_on_pykbroker(
    _spark: "SparkSession", _pykbroker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> SparkFixture:
    return SparkFixture(_spark, _pykbroker, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def _spark_on_apache(
    _spark: "SparkSession", _apache: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> SparkFixture:
    return SparkFixture(_spark, _apache, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture
def spark_fixture(
    spark: "SparkSession",  # noqa: ARG001  # groups tests that share a JVM
    _spark_on_pykbroker: SparkFixture,
    _pykbroker: BrokerProcess,
    show_on_failure: Callable[[str, Callable[[], str]], None],
) -> SparkFixture:
    """Spark with the shared PyKBroker."""
    show_on_failure("pykbroker", _pykbroker.log)
    return _spark_on_pykbroker


@pytest.fixture
def spark_fixtures(
    spark_fixture: SparkFixture,
    _spark_on_apache: SparkFixture,
    _apache: ApacheKafka,
    show_on_failure: Callable[[str, Callable[[], str]], None],
) -> dict[str, SparkFixture]:
    """Spark with each broker, by name."""
    show_on_failure("Apache Kafka", _apache.log_tail)
    return {"pykbroker": spark_fixture, "apache": _spark_on_apache}
