"""`serve`: its options, its ready line, its shutdown."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compat.broker_process import BrokerProcess
from pykbroker.cli.command_line import read_command_line
from pykbroker.cli.serve import write_port_file
from pykbroker.cli.serve_settings import given_properties

pytestmark = pytest.mark.slow

Run = Callable[..., Any]
READY = re.compile(
    r"pykbroker ready bootstrap=127\.0\.0\.1:(\d+) node=(\d+) cluster=(\S+) in \d+\.\d\d s\n"
)

REBALANCE_DELAY = "group.initial.rebalance.delay.ms"

# A process whose clean stop takes 60 s.
SLOW_STOP = """
import asyncio
from pykbroker.cli.process import StopSignals

async def main():
    signals = StopSignals()
    signals.listen()
    print("ready", flush=True)
    await signals.stop_requested()
    print("stopping", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    running: list[BrokerProcess] = []

    def start_broker(*arguments: str) -> BrokerProcess:
        broker = BrokerProcess(tmp_path / f"data-{len(running)}", arguments=arguments)
        running.append(broker)
        return broker.start()

    yield start_broker
    for broker in running:
        broker.stop()


def properties(*arguments: str) -> dict[str, str]:
    options = read_command_line(["serve", *arguments])
    in_file, overrides = given_properties(options, options.data)
    return {**in_file, **overrides}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), {"listeners": "PLAINTEXT://127.0.0.1:9092"}),
        (("--listen", "[::1]:0"), {"listeners": "PLAINTEXT://[::1]:0"}),
        (("--advertise", "a:1"), {"advertised.listeners": "PLAINTEXT://a:1"}),
        (("--data", "d", "--node-id", "0"), {"log.dirs": "d", "node.id": "0"}),
        (("--rack", "r"), {"broker.rack": "r"}),
        (("--set", "log.dir=d", "--set", "a=b=c"), {"log.dirs": "d", "a": "b=c"}),
        (("--listen", "a:1", "--set", "listeners=X"), {"listeners": "X"}),
        (("--data", "d"), {REBALANCE_DELAY: None}),
        (("--ephemeral",), {REBALANCE_DELAY: "0"}),
        (("--ephemeral", "--set", f"{REBALANCE_DELAY}=7"), {REBALANCE_DELAY: "7"}),
    ],
)
def test_options_set_properties(
    arguments: tuple[str, ...], expected: dict[str, str | None]
) -> None:
    given = properties(*arguments)
    assert {name: given.get(name) for name in expected} == expected


def test_the_config_file_overrides_defaults_and_is_overridden_by_options(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("# a comment\nlisteners=PLAINTEXT://:1\nnode.id = 5\nlog.dirs=there\n")
    given = properties("--config", str(config), "--node-id", "6")
    assert given["listeners"] == "PLAINTEXT://:1"
    assert given["node.id"] == "6"
    assert given["log.dirs"] == "there"


def test_serve_prints_one_ready_line_and_stops_cleanly(
    start: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    port_file = tmp_path / "port"
    broker = start("--port-file", str(port_file), "--node-id", "4", "--topic", "trucks:3")
    ready = READY.fullmatch(broker.stdout())
    assert ready
    assert ready[2] == "4"
    assert port_file.read_text() == f"{ready[1]}\n"
    assert broker.stop() == 0


def test_the_port_file_contains_the_bound_port_not_the_advertised_one(
    start: Callable[..., BrokerProcess], tmp_path: Path, pykbroker: Run
) -> None:
    port_file = tmp_path / "port"
    start("--port-file", str(port_file), "--advertise", "127.0.0.1:1")
    address = f"127.0.0.1:{port_file.read_text().strip()}"
    assert pykbroker("api-versions", "--bootstrap", address).exit_code == 0


def test_ctrl_c_ends_a_command_without_output(start: Callable[..., BrokerProcess]) -> None:
    broker = start("--topic", "trucks")
    command = [sys.executable, "-m", "pykbroker", "consume", "trucks", "--follow"]
    arguments = ["--bootstrap", broker.bootstrap]
    produce = [sys.executable, "-m", "pykbroker", "produce", "trucks", "here"]
    subprocess.run([*produce, *arguments], check=True, capture_output=True)
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"here\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        assert running.stderr is not None
        assert running.stderr.read() == b""


def test_topics_of_the_command_line_can_already_exist(
    start: Callable[..., BrokerProcess], pykbroker: Run
) -> None:
    broker = start("--topic", "trucks:3", "--topic", "depots")
    broker.restart()
    outcome = pykbroker("topics", "list", "--json", "--bootstrap", broker.bootstrap)
    assert {it["name"]: it["partitions"] for it in outcome.json} == {"trucks": 3, "depots": 1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ephemeral_broker_deletes_its_data(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-m", "pykbroker", "--ephemeral", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert READY.fullmatch(running.stdout.readline())
        assert len(list(tmp_path.iterdir())) == 1
        running.send_signal(number)
        assert running.wait(30) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "log.segment.byts=1"), "serve: unknown property log.segment.byts; did you mean"),
        (("--set", "log.segment.bytes=x"), "serve: Invalid value x for configuration log.segment."),
        (("--set", "listeners=SSL://127.0.0.1:0"), "serve: listener SSL: security protocol SSL"),
        (("--set", "authorizer.class.name=a"), "serve: authorizer.class.name: authorization is no"),
        (("--set", "controller.quorum.voters=1@a:1,2@b:1"), "serve: controller.quorum.voters=1@a"),
        (("--set", "metadata.log.dir=elsewhere"), "serve: metadata.log.dir: a separate directory"),
        (("--set", "listeners="), "serve: requirement failed: At least one listener must be defi"),
        (("--set", "log.dirs="), "serve: requirement failed: At least one log directory must be d"),
        (("--rack", "r\udcff"), r"serve: broker.rack: 'r\udcff' is not valid UTF-8"),
        (("--config", "nowhere"), "serve: --config nowhere: No such file or directory"),
        (("--topic", "a/b"), "serve: topic a/b: "),
        (("--port-file", "nowhere/port"), "serve: --port-file nowhere/port: No such file or dir"),
    ],
)
def test_a_failed_start_is_one_line_with_exit_code_2(
    pykbroker: Run,
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    outcome = pykbroker("--ephemeral", "--listen", "127.0.0.1:0", *arguments)
    assert outcome.exit_code == 2
    assert outcome.err.startswith(message)
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_reported_in_one_line(pykbroker: Run) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        outcome = pykbroker("serve", "--ephemeral", "--listen", address)
    assert outcome.exit_code == 2
    assert address in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_data_directory_in_use_is_reported_in_one_line(
    start: Callable[..., BrokerProcess], pykbroker: Run
) -> None:
    broker = start()
    outcome = pykbroker("serve", "--listen", "127.0.0.1:0", "--data", str(broker.data_dir))
    assert outcome.exit_code == 2
    assert str(broker.data_dir) in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_second_signal_exits_immediately() -> None:
    command = [sys.executable, "-c", SLOW_STOP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)
        assert running.stdout.readline() == "stopping\n"
        started = time.monotonic()
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 128 + signal.SIGINT
        assert time.monotonic() - started < 10


def test_a_port_file_can_be_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_port_file(str(pipe), SimpleNamespace(bound_port=9092))  # type: ignore[arg-type]
        assert os.read(reader, 100) == b"9092\n"
        assert pipe.is_fifo()
    finally:
        os.close(reader)


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot delete a directory in use")
def test_a_broker_whose_data_directory_is_removed_stops(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        shutil.rmtree(broker.data_dir)
        deadline = time.monotonic() + 30
        while broker.is_running:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert broker.exit_code == 1
        assert "data directory was removed" in broker.log()
    assert not broker.data_dir.exists()
