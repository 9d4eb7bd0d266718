"""Runs the command, and provides the clusters for it."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from compat.apache import ApacheKafka
from compat.broker_process import BrokerProcess
from pykbroker.cli.main import main

COMMAND_TIMEOUT_SECONDS = 60
PROPAGATION_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.exit_code == 0, self.err
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        assert self.exit_code == 0, self.err
        return self.out.splitlines()


class Run(Protocol):
    def __call__(self, *arguments: str, stdin: str = "") -> Outcome: ...


def run_pykbroker(
    *arguments: str, stdin: str = "", bootstrap: str = "", cwd: Path | None = None
) -> Outcome:
    environment = {**os.environ, "PYKBROKER_BOOTSTRAP": bootstrap, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-m", "pykbroker", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        timeout=COMMAND_TIMEOUT_SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Outcome(done.returncode, done.stdout, done.stderr)


def call_pykbroker(*arguments: str, bootstrap: str) -> Outcome:
    """Runs the command in this process, which is faster."""
    with (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8") as out,
        io.StringIO() as err,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            exit_code = main([*arguments, "--bootstrap", bootstrap])
        except SystemExit as ended:
            exit_code = int(ended.code or 0)
        out.flush()
        assert isinstance(out.buffer, io.BytesIO)
        return Outcome(exit_code, out.buffer.getvalue().decode(), err.getvalue())


@pytest.fixture
def pykbroker() -> Callable[..., Outcome]:
    """The command as a process, without a broker."""
    return run_pykbroker


@pytest.fixture(scope="session")
def _own_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("cli") / "data"
    # Groups rebalance immediately, as in the Apache Kafka of these tests.
    with BrokerProcess(data, settings={"group.initial.rebalance.delay.ms": 0}) as node:
        yield node


@pytest.fixture(
    params=[
        pytest.param("apache", marks=pytest.mark.oracle, id="Apache Kafka"),
        pytest.param("_own_node", id="PyKBroker"),
    ]
)
def node(request: pytest.FixtureRequest) -> ApacheKafka | BrokerProcess:
    """A broker: Apache Kafka, then PyKBroker. Commands must behave the same with both."""
    found: ApacheKafka | BrokerProcess = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def ask(node: ApacheKafka | BrokerProcess) -> Run:
    """The command with the address of `node`."""

    def run(*arguments: str, stdin: str = "") -> Outcome:
        if not stdin:
            return call_pykbroker(*arguments, bootstrap=node.bootstrap)
        return run_pykbroker(*arguments, stdin=stdin, bootstrap=node.bootstrap)

    return run


@pytest.fixture
def topic(ask: Run, request: pytest.FixtureRequest, eventually: Callable[..., Any]) -> str:
    """A topic with three partitions, unique to the test."""
    return create_topic(ask, request, eventually)


@pytest.fixture
def topic_of_small_batches(
    ask: Run, request: pytest.FixtureRequest, eventually: Callable[..., Any]
) -> str:
    """A topic with a small max.message.bytes from the start: Apache Kafka applies changes later."""
    return create_topic(ask, request, eventually, "--set", "max.message.bytes=80")


def create_topic(
    ask: Run, request: pytest.FixtureRequest, eventually: Callable[..., Any], *options: str
) -> str:
    name = f"cli-{abs(hash(request.node.nodeid)):x}"
    assert ask("topics", "create", name, "--partitions", "3", *options).exit_code == 0
    assert eventually(lambda: name in ask("topics", "list", "--names").lines)
    return name


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any]], Any]:
    """Repeats a read until it returns something: brokers apply metadata after the controller."""

    def read_until_found(read: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PROPAGATION_SECONDS_MAX
        while not (found := read()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    return read_until_found
