"""`health` prints one line and exits with 0 for a healthy broker, 1 for any other."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykbroker import Broker
from pykbroker.address import Address
from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.health import find_node, health_line
from pykbroker.cli.main import main
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with Broker({"trucks": 3, "ships": 1}) as broker:
        yield broker


def metadata(*, nodes: int = 2, leaderless: int = 0) -> MetadataResponse:
    """Each node leads every second of ten partitions; the first `leaderless` have no leader."""
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=it, host=f"k{it}", port=9) for it in range(nodes)],
        cluster_id="C",
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.NONE,
                name="trucks",
                partitions=[
                    MetadataResponsePartition(
                        error_code=ErrorCode.NONE,
                        partition_index=it,
                        leader_id=-1 if it < leaderless else it % 2,
                        replica_nodes=[it % 2],
                        isr_nodes=[it % 2],
                    )
                    for it in range(10)
                ],
            )
        ],
    )


def test_a_running_broker_is_healthy(kafka: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--bootstrap", kafka.bootstrap]) == 0
    line = capsys.readouterr().out
    assert line.startswith("healthy: node 1 of cluster ")
    assert line.endswith(", 4 partitions, 0 without a leader\n")


def test_a_refused_connection_is_unhealthy(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as bound:  # bound without listen()
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert main(["health", "--bootstrap", f"127.0.0.1:{port}"]) == 1
    error = capsys.readouterr().err
    assert error == f"health: cannot connect to 127.0.0.1:{port}: connection refused\n"


def test_a_broker_that_does_not_respond_is_unhealthy(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert main(["health", "--bootstrap", address, "--timeout", "0.2"]) == 1
    assert capsys.readouterr().err == f"health: {address} did not respond in 0.2 s\n"


@pytest.mark.parametrize("fault", ["drop", "cut_answer"])
def test_a_broker_that_closes_the_connection_is_unhealthy(
    kafka: Broker, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with getattr(kafka.faults, fault)("METADATA"):
        assert main(["health", "--bootstrap", kafka.bootstrap]) == 1
    assert capsys.readouterr().err.startswith(f"health: {kafka.bootstrap}: ")


def test_an_error_response_is_unhealthy(kafka: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    with kafka.faults.refuse("ApiVersions", "CLUSTER_AUTHORIZATION_FAILED"):
        assert main(["health", "--bootstrap", kafka.bootstrap]) == 1
    assert capsys.readouterr().err.startswith("health: CLUSTER_AUTHORIZATION_FAILED: ")


def test_an_invalid_address_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--bootstrap", "here"]) == 2
    assert capsys.readouterr().err.startswith("health: --bootstrap: ")


@pytest.mark.parametrize(
    ("nodes", "address", "given", "found"),
    [
        (1, Address("elsewhere", 1), None, 0),
        (2, Address("k1", 9), None, 1),
        (2, Address("elsewhere", 1), None, None),
        (2, Address("k1", 9), 0, 0),
    ],
)
def test_the_checked_node_is_found_by_id_or_address(
    nodes: int, address: Address, given: int | None, found: int | None
) -> None:
    assert find_node(metadata(nodes=nodes), address, given) == found


@pytest.mark.parametrize(
    ("node_id", "leaderless", "line"),
    [
        (0, 0, "healthy: node 0 of cluster C, 5 partitions, 0 without a leader"),
        (None, 0, "healthy: all nodes of cluster C, 10 partitions, 0 without a leader"),
        (1, 1, "healthy: node 1 of cluster C, 5 partitions, 0 without a leader"),
    ],
)
def test_nodes_whose_partitions_have_a_leader_are_healthy(
    node_id: int | None, leaderless: int, line: str
) -> None:
    assert health_line(metadata(leaderless=leaderless), node_id) == line


def test_partitions_without_a_leader_are_named() -> None:
    with pytest.raises(CommandFailed) as failure:
        health_line(metadata(leaderless=3), 0)
    assert str(failure.value) == (
        "partitions of node 0 without a leader: 2 of 5 (trucks-0, trucks-2)"
    )


def test_health_imports_no_event_loop() -> None:
    program = (
        "import sys; from pykbroker.cli.main import main; main(['health', '--timeout', '0.1']);"
        "print([it for it in ('asyncio', 'ssl', 'uvloop', 'logging') if it in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.endswith("[]\n")
