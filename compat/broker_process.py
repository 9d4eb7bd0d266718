"""Starts, stops and kills a PyKBroker node as a separate process."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

START_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.005
_READY = re.compile(r"^pykbroker ready bootstrap=(?P<host>\S+):(?P<port>\d+) .*$", re.MULTILINE)


class BrokerFailedError(RuntimeError):
    """The broker did not start or exited; the message ends with its log."""


class BrokerProcess:
    """A node on a data directory. The context manager starts and stops it.

    A restart keeps the port of the first start. Standard output and the log are written to
    `<data directory>.node`.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.port = port
        self.settings = dict(settings or {})
        self.arguments = tuple(arguments)
        self.ready_line = ""
        self.python = tuple(python)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        assert self.port, "the broker is not started, its port is unknown"
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    @property
    def log_file(self) -> Path:
        return self._own_dir / "stderr.log"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def command(self) -> list[str]:
        """Returns the command line that starts this node."""
        command = [*self.python, "-m", "pykbroker", "serve"]
        command += ["--listen", f"127.0.0.1:{self.port}", "--data", str(self.data_dir)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return [*command, *self.arguments]

    def start(self, *, wait: bool = True) -> Self:
        """Starts the node and waits for its ready line."""
        assert not self.is_running, "the broker is running already"
        self._own_dir.mkdir(parents=True, exist_ok=True)
        with self._stdout_file.open("wb") as stdout, self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=stdout, stderr=log
            )
        if wait:
            self.wait_until_serving()
        return self

    def wait_until_serving(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while (ready := _READY.search(self.stdout())) is None:
            if not self.is_running:
                raise self._failure(f"exited during startup with exit code {self.exit_code}")
            if time.monotonic() > deadline:
                self.kill()
                raise self._failure(f"was not ready within {START_TIMEOUT_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        self.ready_line = ready[0]
        self.port = int(ready["port"])

    def stop(self) -> int | None:
        """Sends SIGTERM and returns the exit code. After a timeout, kills the node and raises."""
        if self._process is None:
            return None
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failure(f"did not stop within {STOP_TIMEOUT_SECONDS:.0f} s") from None

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

    def stdout(self) -> str:
        return self._stdout_file.read_text(errors="replace") if self._stdout_file.exists() else ""

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def _own_dir(self) -> Path:
        return self.data_dir.with_name(self.data_dir.name + ".node")

    @property
    def _stdout_file(self) -> Path:
        return self._own_dir / "stdout.log"

    def _failure(self, what: str) -> BrokerFailedError:
        tail = "\n".join(self.log().splitlines()[-40:])
        return BrokerFailedError(f"PyKBroker {what}; last lines of its log:\n{tail}")
