"""Whether a broker serves is one line and an exit code."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykbroker import Broker
from pykbroker.address import Address
from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.health import node_in, verdict
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
    """Every node holds every second of ten partitions, and leads them but for the first few."""
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


def test_a_broker_that_serves_is_healthy(kafka: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--bootstrap", kafka.bootstrap]) == 0
    said = capsys.readouterr().out
    assert said.startswith("healthy: node 1 of cluster ")
    assert said.endswith(", 4 partitions, all led\n")


def test_nobody_there_is_not_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as nobody:  # who has a port, and does not listen
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        assert main(["health", "--bootstrap", f"127.0.0.1:{port}"]) == 1
    assert capsys.readouterr().err == f"health: nobody listens at 127.0.0.1:{port}\n"


def test_who_does_not_answer_is_not_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = f"127.0.0.1:{silent.getsockname()[1]}"
        assert main(["health", "--bootstrap", asked, "--timeout", "0.2"]) == 1
    assert capsys.readouterr().err == f"health: {asked} did not answer in 0.2 s\n"


@pytest.mark.parametrize("fault", ["drop", "cut_answer"])
def test_a_broker_that_breaks_off_is_not_healthy(
    kafka: Broker, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with getattr(kafka.faults, fault)("METADATA"):
        assert main(["health", "--bootstrap", kafka.bootstrap]) == 1
    assert capsys.readouterr().err.startswith(f"health: {kafka.bootstrap}: ")


def test_a_broker_that_refuses_is_not_healthy(
    kafka: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with kafka.faults.refuse("ApiVersions", "CLUSTER_AUTHORIZATION_FAILED"):
        assert main(["health", "--bootstrap", kafka.bootstrap]) == 1
    assert capsys.readouterr().err.startswith("health: CLUSTER_AUTHORIZATION_FAILED: ")


def test_an_address_that_is_none_is_not_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--bootstrap", "here"]) == 1
    assert capsys.readouterr().err.startswith("health: --bootstrap: ")


@pytest.mark.parametrize(
    ("nodes", "asked", "given", "found"),
    [
        (1, Address("elsewhere", 1), None, 0),
        (2, Address("k1", 9), None, 1),
        (2, Address("elsewhere", 1), None, None),
        (2, Address("k1", 9), 0, 0),
    ],
)
def test_the_node_that_was_asked_is_found(
    nodes: int, asked: Address, given: int | None, found: int | None
) -> None:
    assert node_in(metadata(nodes=nodes), asked, given) == found


@pytest.mark.parametrize(
    ("node_id", "leaderless", "said"),
    [
        (0, 0, "healthy: node 0 of cluster C, 5 partitions, all led"),
        (None, 0, "healthy: all nodes of cluster C, 10 partitions, all led"),
        (1, 1, "healthy: node 1 of cluster C, 5 partitions, all led"),
    ],
)
def test_who_is_led_is_healthy(node_id: int | None, leaderless: int, said: str) -> None:
    assert verdict(metadata(leaderless=leaderless), node_id) == said


def test_partitions_without_a_leader_are_named() -> None:
    with pytest.raises(CommandFailed) as failure:
        verdict(metadata(leaderless=3), 0)
    assert str(failure.value) == ("2 of 5 partitions of node 0 have no leader: trucks-0, trucks-2")


def test_a_check_loads_no_event_loop() -> None:
    program = (
        "import sys; from pykbroker.cli.main import main; main(['health', '--timeout', '0.1']);"
        "print([it for it in ('asyncio', 'ssl', 'uvloop', 'logging') if it in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.endswith("[]\n")
