"""Commands without a reachable broker, and without a reader of their output."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

TESTS = str(Path(__file__).parents[1])
"""A directory with enough files to fill the buffer of stdout before the command ends."""


def test_a_refused_connection_is_reported_in_one_line(pykbroker: Run) -> None:
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))  # without listen()
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        outcome = pykbroker("topics", "list", "--bootstrap", address)
    assert outcome.exit_code == 2
    assert outcome.err == f"topics list: cannot connect to {address}: connection refused\n"


def test_an_invalid_address_is_reported_in_one_line(pykbroker: Run) -> None:
    outcome = pykbroker("topics", "list", "--bootstrap", "nonsense")
    assert outcome.exit_code == 2
    assert outcome.err == "topics list: --bootstrap: 'nonsense' is not HOST:PORT\n"


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Accepts connections and sends nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_broker_that_does_not_respond_times_out(pykbroker: Run, silent_server: str) -> None:
    outcome = pykbroker("topics", "list", "--bootstrap", silent_server, "--timeout", "0.2")
    assert outcome.exit_code == 2
    assert outcome.err == f"topics list: {silent_server} did not respond in 0.2 s\n"


def test_the_error_of_each_bootstrap_address_is_reported(
    pykbroker: Run, silent_server: str
) -> None:
    addresses = f"127.0.0.1:1,{silent_server}"
    outcome = pykbroker("topics", "list", "--bootstrap", addresses, "--timeout", "0.2")
    assert outcome.err == (
        "topics list: cannot connect to 127.0.0.1:1: connection refused; "
        f"{silent_server} did not respond in 0.2 s\n"
    )


def test_a_server_that_is_not_a_broker_is_reported_in_one_line(pykbroker: Run) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server_thread = threading.Thread(target=send_http_error, args=(server,))
        server_thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        outcome = pykbroker("topics", "list", "--bootstrap", address, "--timeout", "5")
        server_thread.join()
    assert outcome.exit_code in (1, 2)
    assert outcome.err.startswith(f"topics list: {address}")
    assert outcome.err.count("\n") == 1


def send_http_error(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize("arguments", [("completion", "bash"), ("log", "dump", TESTS)])
def test_a_closed_pipe_is_not_reported(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pykbroker", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(30) == 141
        assert running.stderr is not None
        assert running.stderr.read() == b""


def test_version_is_printed(pykbroker: Run) -> None:
    outcome = pykbroker("--version")
    assert outcome.exit_code == 0
    assert outcome.out.startswith("pykbroker ")
