"""Starts, stops and kills an Apache Kafka node (broker and controller) on loopback."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from compat.apache.installation import install
from compat.apache.tools import ApacheTools, Completed, java_command

CLUSTER_ID = "PyKBrokerCompatibility"
START_TIMEOUT_SECONDS = 90.0
STOP_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.05
_SERVING = "Kafka Server started"

# For few requests: a fast start and little CPU.
MODEST_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog.level=INFO")
# The garbage collector settings of Apache's start script, for benchmarks.
SERVER_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Dlog.level=INFO",
)

# A single node holds one replica. Fifty partitions of internal topics would slow down the start.
# After a kill, the controller accepts the node only after its previous session has expired.
SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}


class ApacheKafkaFailedError(RuntimeError):
    """The node did not start or exited; the message ends with its log."""


class ApacheKafka:
    """A node on a new or existing data directory. The context manager starts and stops it.

    `server.properties` and `server.log` are written to `<data directory>.node`, so the data
    directory contains only Kafka's data.
    """

    format_options: tuple[str, ...] = ()
    """Arguments of `kafka-storage format` after cluster id and configuration."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        controller_port: int = 0,
        node_id: int | None = None,
        settings: Mapping[str, object] | None = None,
        heap: str = "512m",
        jvm: Sequence[str] = MODEST_JVM,
        tools: ApacheTools | None = None,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.port = port or free_port()
        self.controller_port = controller_port or free_port()
        self.node_id = node_id if node_id is not None else _existing_node_id(data_dir)
        self.settings = dict(settings or {})
        self.jvm = [f"-Xms{heap}", f"-Xmx{heap}", *jvm]
        self.tools = tools or ApacheTools.installed()
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0  # position in the log file at which the running process began

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_file(self) -> Path:
        return self._own_dir / "server.log"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, *, wait: bool = True) -> Self:
        """Formats the data directory if necessary, starts the node and waits until it serves."""
        assert not self.is_running, "the node is running already"
        self.prepare()
        self._spawn()
        if wait:
            self.wait_until_serving()
        return self

    def prepare(self) -> None:
        """Writes the settings and formats the data directory if necessary."""
        self._own_dir.mkdir(parents=True, exist_ok=True)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._write_properties()
        if not (self.data_dir / "meta.properties").exists():
            self._format()

    def wait_until_serving(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not (self._has_announced_itself() and _accepts(self.port)):
            if not self.is_running:
                raise self._failure(f"exited during startup with exit code {self._exit_code()}")
            if time.monotonic() > deadline:
                self.kill()
                raise self._failure(f"was not ready within {START_TIMEOUT_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Sends SIGTERM; kills the node after a timeout."""
        if not self.is_running:
            return
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends the node with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Stops all threads of the process with SIGSTOP; its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> Self:
        """Stops and starts the node with the same data, address and settings."""
        self.stop()
        return self.start()

    def tool(
        self,
        name: str,
        *arguments: object,
        input: str | None = None,  # noqa: A002 (named as in subprocess.run, which it feeds)
    ) -> Completed:
        """Runs a console tool against this node."""
        return self.tools.tool(name, "--bootstrap-server", self.bootstrap, *arguments, input=input)

    def log_tail(self, *, lines: int = 40) -> str:
        if not self.log_file.exists():
            return "(no log)"
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    @property
    def _own_dir(self) -> Path:
        return self.data_dir.with_name(self.data_dir.name + ".node")

    @property
    def _properties_file(self) -> Path:
        return self._own_dir / "server.properties"

    def _write_properties(self) -> None:
        lines = (f"{key}={value}" for key, value in self._properties().items())
        self._properties_file.write_text("\n".join(lines) + "\n")

    def _properties(self) -> dict[str, object]:
        listeners = f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{self.node_id}@127.0.0.1:{self.controller_port}",
            "log.dirs": self.data_dir,
            **SINGLE_NODE,
            **self.settings,
        }

    def _format(self) -> None:
        formatted = self.tools.tool(
            "storage",
            "format",
            *("--cluster-id", CLUSTER_ID, "--config", self._properties_file),
            *self.format_options,
        )
        if formatted.returncode != 0:
            raise ApacheKafkaFailedError(
                f"{self.data_dir} cannot be formatted:\n{formatted.stdout}{formatted.stderr}"
            )

    def _spawn(self) -> None:
        command = java_command(install(), self.jvm, "kafka.Kafka", str(self._properties_file))
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._own_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _has_announced_itself(self) -> bool:
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return _SERVING.encode() in log.read()

    def _exit_code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def _failure(self, what: str) -> ApacheKafkaFailedError:
        return ApacheKafkaFailedError(
            f"Apache Kafka {what}; last lines of its log:\n{self.log_tail()}"
        )


def free_port() -> int:
    """Returns a loopback port that is currently free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _existing_node_id(data_dir: Path) -> int:
    """Returns the node id of a formatted directory; 1 for a new one."""
    try:
        properties = (data_dir / "meta.properties").read_text()
    except FileNotFoundError:
        return 1
    found = re.search(r"^node\.id=(\d+)$", properties, re.MULTILINE)
    return int(found.group(1)) if found else 1


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
