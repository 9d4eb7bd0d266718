"""A cluster of three brokers, shared by the tests of a module.

PYKBROKER_CLUSTER selects other brokers: `apache,apache,apache` is the oracle.
"""

import os
from collections.abc import Callable, Iterator

import pytest

from compat.apache import ApacheTools
from compat.broker_process import BrokerProcess
from compat.cluster import Cluster, Kind

KINDS = os.environ.get("PYKBROKER_CLUSTER", "apache,own,own")


@pytest.fixture(scope="module")
def _cluster(
    tmp_path_factory: pytest.TempPathFactory, apache_tools: ApacheTools
) -> Iterator[Cluster]:
    kinds = dict(enumerate(map(Kind, KINDS.split(",")), start=1))
    with Cluster(tmp_path_factory.mktemp("cluster"), kinds, tools=apache_tools) as cluster:
        yield cluster
        cluster.bring_back()
        for node in cluster.nodes.values():
            if isinstance(node, BrokerProcess):
                assert node.stop() == 0, node.log()
                assert "Traceback (most recent call last)" not in node.log()


@pytest.fixture
def cluster(
    _cluster: Cluster, show_on_failure: Callable[[str, Callable[[], str]], None]
) -> Cluster:
    """Three brokers, all unfenced."""
    for name, read in _cluster.logs():
        show_on_failure(name, read)
    show_on_failure("metadata", _cluster.describe)
    _cluster.bring_back()
    return _cluster
