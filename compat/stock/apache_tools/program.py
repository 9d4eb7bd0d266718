"""Apache Kafka's programs as a client of the suite: tools, and workers that keep running."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from line_program import Options, Program, run

from compat.apache import WarmTools

TOOL_SECONDS_MAX = 50.0
END_SECONDS_MAX = 30.0
HEARD_BYTES_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class Worker:
    """A program that runs until it is closed; its output is written to a file."""

    process: subprocess.Popen[bytes]
    output: Path

    def heard(self) -> Options:
        text = self.output.read_bytes()[-HEARD_BYTES_MAX:].decode(errors="replace")
        return {"output": text, "exit_code": self.process.poll()}

    def close(self) -> None:
        """Sends SIGTERM; kills the program after a timeout."""
        self.process.terminate()
        try:
            self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class ApachePrograms(Program):
    client = "apache-kafka"

    def __init__(self, tools: WarmTools, directory: Path) -> None:
        super().__init__()
        self.tools = tools
        self.directory = directory
        self.count = 0

    def hello(self) -> Options:
        (jar,) = self.tools.libraries.glob("kafka-clients-*.jar")
        with ZipFile(jar) as content:
            properties = content.read("kafka/kafka-version.properties").decode()
        lines = dict(line.split("=", 1) for line in properties.splitlines() if "=" in line)
        return {"client": self.client, "version": lines["version"]}

    def run_tool(self, tool: str, arguments: list[str], input: str | None) -> Options:  # noqa: A002 (the protocol's word)
        done = self.tools.tool(tool, *arguments, input=input, timeout_seconds=TOOL_SECONDS_MAX)
        return {"exit_code": done.returncode, "output": done.stdout, "errors": done.stderr}

    def start_tool(self, on: str, tool: str, arguments: list[str]) -> None:
        self.count += 1
        output = self.directory / f"{self.count}.output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                self.tools.command(tool, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.open[on] = Worker(process, output)

    def heard(self, on: str) -> Options:
        worker: Worker = self.open[on]
        return worker.heard()

    def close_quickly(self, opened: Worker) -> None:
        opened.kill()

    def code_of(self, error: BaseException) -> str:
        return "TIMED_OUT" if isinstance(error, subprocess.TimeoutExpired) else "CLIENT"


if __name__ == "__main__":
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compat-tools-")))
        run(ApachePrograms(stack.enter_context(WarmTools.open()), directory))
