"""Whatever answers, and whatever a file is: one line on stderr and an exit code, no traceback."""

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

NO_TEXT = "x\udcff"
Talk = Callable[[bytes], bytes]


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def http(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


NO_BROKERS: dict[str, Talk] = {
    "closes at once": lambda _: b"",
    "speaks HTTP": lambda _: http("400 Bad Request", b"[]"),
    "announces less than nothing": lambda _: b"\xff" * 4,
    "answers one byte": lambda _: framed(b"a"),
    "answers zeros": lambda asked: framed(asked[8:12] + bytes(60)),
    "answers ones": lambda asked: framed(asked[8:12] + b"\x01" * 60),
}
ASKS_A_BROKER = (
    "topics list",
    "produce t v",
    "consume t",
    "groups list",
    "configs describe topic t",
    "cluster describe",
    "health",
)


@pytest.mark.parametrize("talk", NO_BROKERS.values(), ids=NO_BROKERS)
def test_what_is_no_broker_is_said_so(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    with talking_server(talk) as address:
        for command in ASKS_A_BROKER:
            code = main([*command.split(), "--bootstrap", address, "--timeout", "0.5"])
            assert code in (1, 2), command
            assert capsys.readouterr().err.count("\n") == 1, command


NO_CONTROL_PORTS: dict[str, Talk] = {
    "closes at once": lambda _: b"",
    "is no HTTP": lambda _: b"\0" * 100 + b"\n",
    "refuses with a list": lambda _: http("404 Not Found", b"[]"),
    "answers a list": lambda _: http("200 OK", b"[1]"),
    "answers nothing much": lambda _: http("200 OK", b"null"),
    "answers something else": lambda _: http("200 OK", b'{"name": "elsewhere"}'),
    "answers without an end": lambda _: http("200 OK", b"[" * 100_000),
}
ASKS_A_CONTROL_PORT = ("state", "faults list", "clock show", "timeline", "wait-for t")


@pytest.mark.parametrize("talk", NO_CONTROL_PORTS.values(), ids=NO_CONTROL_PORTS)
def test_what_is_no_control_port_is_said_so(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    with talking_server(talk) as address:
        for command in ASKS_A_CONTROL_PORT:
            assert main(["control", *command.split(), "--control", address]) in (1, 2), command
            assert capsys.readouterr().err.count("\n") == 1, command


class talking_server:  # noqa: N801  # reads as the context that it is
    """Answers whatever it is asked with what somebody makes of it, or closes if that is nothing."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
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
                    while answer := self._talk(connection.recv(65536)):
                        connection.sendall(answer)


@pytest.mark.parametrize(
    "command", ["log dump FILE", "pipeline status FILE", "pipeline verify FILE"]
)
def test_a_file_that_cannot_be_read_is_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"\xff\0")
    for name in ("nowhere", "file/within", "x" * 300, NO_TEXT):
        arguments = command.replace("FILE", str(tmp_path / name)).split()
        assert main(arguments) == 2, name
        assert capsys.readouterr().err.count("\n") == 1, name


def test_a_property_that_the_client_does_not_know_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--bootstrap", "127.0.0.1:1", "--property", "nonsense=1")
    assert main(["pipeline", "verify", str(tmp_path), *words]) == 1
    assert capsys.readouterr().err.count("\n") == 1


FULL = Path("/dev/full")
"""A device on which every write fails with ENOSPC."""


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("command", "output", "exit_code"),
    [
        ("serve --listen 127.0.0.1:0 --data /dev/null/data", "stderr", 2),
        ("log dump /nowhere", "stderr", 2),
        ("--version", "stdout", 1),
    ],
)
def test_output_on_a_full_disk_keeps_the_exit_code(
    command: str, output: str, exit_code: int
) -> None:
    words = [sys.executable, "-m", "pykbroker", *command.split()]
    outputs: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with FULL.open("wb") as full:
        ran = subprocess.run(words, **{**outputs, output: full}, text=True, timeout=60, check=False)
    assert ran.returncode == exit_code
    if output == "stdout":
        assert ran.stderr == "pykbroker: cannot write output: No space left on device\n"
