"""An address without a Kafka broker is a usage error before any cell runs."""

from __future__ import annotations

import socket
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from compat.command_line import main
from compat.suite.brokers import addresses_in

if TYPE_CHECKING:
    from collections.abc import Iterator

HTTP_RESPONSE = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def web_server() -> Iterator[int]:
    def answer() -> None:
        peer, _ = server.accept()
        with peer:
            peer.recv(1024)
            peer.sendall(HTTP_RESPONSE)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_http_server_is_reported_in_one_line(
    web_server: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--bootstrap", f"127.0.0.1:{web_server}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pykbroker-compat: 127.0.0.1:{web_server}: ")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("address", ["here", "here:port", ":9092", "here:99999", ""])
def test_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        addresses_in(address)


def test_ipv4_and_ipv6_addresses_are_parsed() -> None:
    assert addresses_in("127.0.0.1:9092,[::1]:9093") == [("127.0.0.1", 9092), ("::1", 9093)]


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_at_once_must_be_positive(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--at-once", count])
    assert ended.value.code == 2
    assert "is not a positive integer" in capsys.readouterr().err
