"""One broker of each kind for all scenarios of Spark, each with topics of its own."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from compat.apache import ApacheKafka, install
from compat.broker_process import BrokerProcess
from tests.end_to_end.spark.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def _pykbroker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("spark") / "pykbroker") as broker:
        yield broker
    assert "Traceback (most recent call last)" not in broker.log()


@pytest.fixture(scope="session")
def _apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A node of our own, for scenarios stop and kill it."""
    install()
    with ApacheKafka(tmp_path_factory.mktemp("spark") / "apache", heap="384m") as node:
        yield node


@pytest.fixture(scope="session")
def _stage_on_pykbroker(
    _spark: "SparkSession", _pykbroker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    return Stage(_spark, _pykbroker, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def _stage_on_apache(
    _spark: "SparkSession", _apache: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    return Stage(_spark, _apache, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture
def stage(
    spark: "SparkSession",  # noqa: ARG001  # it says which tests share a JVM
    _stage_on_pykbroker: Stage,
    _pykbroker: BrokerProcess,
    show_on_failure: Callable[[str, Callable[[], str]], None],
) -> Stage:
    """Spark and a pykbroker that other scenarios have used before."""
    show_on_failure("pykbroker", _pykbroker.log)
    return _stage_on_pykbroker


@pytest.fixture
def stages(
    stage: Stage,
    _stage_on_apache: Stage,
    _apache: ApacheKafka,
    show_on_failure: Callable[[str, Callable[[], str]], None],
) -> dict[str, Stage]:
    """The same Spark with either broker."""
    show_on_failure("Apache Kafka", _apache.log_tail)
    return {"pykbroker": stage, "apache": _stage_on_apache}
