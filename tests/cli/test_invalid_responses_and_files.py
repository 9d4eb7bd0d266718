"""Invalid responses and files are reported in one line on stderr, without a traceback."""

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from pykbroker.cli.main import main

UNDECODABLE = "x\udcff"
Respond = Callable[[bytes], bytes]


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def http(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


INVALID_BROKERS: dict[str, Respond] = {
    "closes immediately": lambda _: b"",
    "speaks HTTP": lambda _: http("400 Bad Request", b"[]"),
    "sends a negative length": lambda _: b"\xff" * 4,
    "sends one byte": lambda _: framed(b"a"),
    "sends zeros": lambda request: framed(request[8:12] + bytes(60)),
    "sends ones": lambda request: framed(request[8:12] + b"\x01" * 60),
}
BROKER_COMMANDS = (
    "topics list",
    "produce t v",
    "consume t",
    "groups list",
    "configs describe topic t",
    "cluster describe",
    "health",
)


@pytest.mark.parametrize("respond", INVALID_BROKERS.values(), ids=INVALID_BROKERS)
def test_an_invalid_broker_is_reported_in_one_line(
    respond: Respond, capsys: pytest.CaptureFixture[str]
) -> None:
    with responding_server(respond) as address:
        for command in BROKER_COMMANDS:
            code = main([*command.split(), "--bootstrap", address, "--timeout", "0.5"])
            assert code in (1, 2), command
            assert capsys.readouterr().err.count("\n") == 1, command


INVALID_CONTROL_PORTS: dict[str, Respond] = {
    "closes immediately": lambda _: b"",
    "sends no HTTP": lambda _: b"\0" * 100 + b"\n",
    "sends a list as error": lambda _: http("404 Not Found", b"[]"),
    "sends a list": lambda _: http("200 OK", b"[1]"),
    "sends null": lambda _: http("200 OK", b"null"),
    "sends other fields": lambda _: http("200 OK", b'{"name": "elsewhere"}'),
    "sends deeply nested JSON": lambda _: http("200 OK", b"[" * 100_000),
}
CONTROL_COMMANDS = ("state", "faults list", "clock show", "timeline", "wait-for t")


@pytest.mark.parametrize("respond", INVALID_CONTROL_PORTS.values(), ids=INVALID_CONTROL_PORTS)
def test_an_invalid_control_port_is_reported_in_one_line(
    respond: Respond, capsys: pytest.CaptureFixture[str]
) -> None:
    with responding_server(respond) as address:
        for command in CONTROL_COMMANDS:
            assert main(["control", *command.split(), "--control", address]) in (1, 2), command
            assert capsys.readouterr().err.count("\n") == 1, command


class responding_server:  # noqa: N801  # used as a context manager
    """A server that responds with the result of `respond`, and closes if it is empty."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> str:
        self._thread.start()
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                with closing(connection), suppress(OSError):
                    while response := self._respond(connection.recv(65536)):
                        connection.sendall(response)


@pytest.mark.parametrize(
    "command", ["log dump FILE", "pipeline status FILE", "pipeline verify FILE"]
)
def test_an_unreadable_file_is_reported_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"\xff\0")
    for name in ("nowhere", "file/within", "x" * 300, UNDECODABLE):
        arguments = command.replace("FILE", str(tmp_path / name)).split()
        assert main(arguments) == 2, name
        assert capsys.readouterr().err.count("\n") == 1, name


def test_an_unknown_librdkafka_property_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--bootstrap", "127.0.0.1:1", "--property", "nonsense=1")
    assert main(["pipeline", "verify", str(tmp_path), *words]) == 1
    assert capsys.readouterr().err.count("\n") == 1


FULL = Path("/dev/full")
"""Every write to this device fails with ENOSPC."""


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize(
    ("command", "output", "exit_code"),
    [
        ("serve --listen 127.0.0.1:0 --data /dev/null/data", "stderr", 2),
        ("log dump /nowhere", "stderr", 2),
        ("--version", "stdout", 1),
    ],
)
def test_a_full_disk_does_not_change_the_exit_code(
    command: str, output: str, exit_code: int
) -> None:
    words = [sys.executable, "-m", "pykbroker", *command.split()]
    outputs: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with FULL.open("wb") as full:
        ran = subprocess.run(words, **{**outputs, output: full}, text=True, timeout=60, check=False)
    assert ran.returncode == exit_code
    if output == "stdout":
        assert ran.stderr == "pykbroker: cannot write output: No space left on device\n"
