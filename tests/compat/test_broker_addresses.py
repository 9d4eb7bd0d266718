"""An address that is no broker's is told at once, in a line, and not in two thousand cells."""

from __future__ import annotations

import socket
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from compat.command_line import main
from compat.suite.brokers import addresses_in

if TYPE_CHECKING:
    from collections.abc import Iterator

A_WEB_SERVER = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def web_server() -> Iterator[int]:
    def answer() -> None:
        peer, _ = server.accept()
        with peer:
            peer.recv(1024)
            peer.sendall(A_WEB_SERVER)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_who_speaks_another_protocol_is_told_apart(
    web_server: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--bootstrap", f"127.0.0.1:{web_server}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"pykbroker-compat: 127.0.0.1:{web_server}: ")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("address", ["here", "here:port", ":9092", "here:99999", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        addresses_in(address)


def test_addresses_of_either_family_are_read() -> None:
    assert addresses_in("127.0.0.1:9092,[::1]:9093") == [("127.0.0.1", 9092), ("::1", 9093)]


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_no_cells_at_once_are_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--at-once", count])
    assert ended.value.code == 2
    assert "is not a number of 1 or more" in capsys.readouterr().err
