"""Test fixture of the console tools: a topic, names, files, and checks of their output."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from compat.suite.assertions import ScenarioFailedError, must, must_equal

if TYPE_CHECKING:
    from compat.suite.actor import Actor
    from compat.suite.scenario_context import ScenarioContext

FIRST_MS: Final = 1_700_000_000_000
RECORDS: Final = 6
_OUTPUT_SHOWN_MAX: Final = 1_200
PAUSE_SECONDS: Final = 0.3

FILES: Final = {
    "delete": '{"version":1,"partitions":[{"topic":"{topic}","partition":0,"offset":2}]}',
    "move": '{"version":1,"topics":[{"topic":"{topic}"}]}',
    "stay": '{"version":1,"partitions":[{"topic":"{topic}","partition":0,"replicas":[{node}]}]}',
    "client": "client.id=operator\n",
    "server": (
        "process.roles=broker,controller\nnode.id={node}\nlog.dirs={data}\n"
        "controller.quorum.voters={node}@127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
    ),
}
"""Content of the files that commands name as `file:NAME`. `copy:PATH` copies a broker's file."""


class Line(NamedTuple):
    """A command line and its expected output."""

    command: str
    output: str = ""
    """Regular expression; placeholders such as `{topic}` match literally."""
    exit_code: int = 0
    input: str = ""
    tool: str = ""
    """Set if the command uses another tool than that of the scenario."""
    seconds: float = 0
    """How long the command is repeated until its output is as expected."""


@dataclass(slots=True)
class ToolFixture:
    """A topic with six records in two partitions, one millisecond apart."""

    context: ScenarioContext
    actor: Actor = field(init=False)
    names: dict[str, str] = field(init=False)
    """Values of `{topic}` and the other placeholders in commands, outputs and files."""

    def __post_init__(self) -> None:
        reference = self.context.reference
        topic = self.context.topic(partitions=2)
        for number in range(RECORDS):
            row = {"value": b"%d" % number, "timestamp_ms": FIRST_MS + number}
            reference.write(topic, [row], partition=number % 2)
        self.actor = self.context.client()
        self.names = {
            "topic": topic,
            "single": self.context.topic("single"),
            "new": self.context.name("new"),
            "group": self.context.name("group"),
            "bootstrap": self.actor.bootstrap,
            "node": str(reference.node_ids()[0]),
        }
        if self.context.broker.data_dir is not None:
            self.names["data"] = str(self.context.broker.data_dir.resolve())

    def run(self, tool: str, line: Line) -> str:
        """Runs a tool, checks exit code and output, and returns the output."""
        deadline = time.monotonic() + line.seconds
        while True:
            try:
                return self._run(line.tool or tool, line)
            except ScenarioFailedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)

    def _run(self, tool: str, line: Line) -> str:
        result = self.actor.do(
            "run_tool", tool=tool, arguments=self.arguments(tool, line.command), input=line.input
        )
        output: str = result["output"] + result["errors"]
        shown = f"{tool} {line.command}: {output[-_OUTPUT_SHOWN_MAX:]}"
        must_equal(result["exit_code"], line.exit_code, f"the exit code of {shown}")
        expected = self.filled_in(line.output, escaped=True)
        must(
            re.search(expected, output, re.MULTILINE),
            f"{expected!r} is not in the output of {shown}",
        )
        return output

    def arguments(self, tool: str, command: str) -> list[str]:
        """Returns the arguments of a command; adds --bootstrap-server if the tool needs it."""
        words = [self._word(it) for it in shlex.split(command)]
        if "{bootstrap}" in command or tool in WITHOUT_BROKER:
            return words
        return ["--bootstrap-server", self.names["bootstrap"], *words]

    def filled_in(self, text: str, *, escaped: bool = False) -> str:
        for name, value in self.names.items():
            text = text.replace(f"{{{name}}}", re.escape(value) if escaped else value)
        return text

    def _word(self, word: str) -> str:
        """Replaces `file:NAME` and `copy:PATH` by the path of a written or copied file."""
        kind, _, name = word.partition(":")
        if kind == "file":
            file = self.context.scratch() / name
            file.write_text(self.filled_in(FILES[name]))
            return str(file)
        if kind == "copy":
            return str(shutil.copy(self.filled_in(name), self.context.scratch()))
        return self.filled_in(word)


WITHOUT_BROKER: Final = frozenset({"dump-log", "metadata-shell", "storage"})
"""Tools that read files instead of a broker."""
