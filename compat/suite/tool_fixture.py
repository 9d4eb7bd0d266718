"""An operator's fixture: a topic, names and files, and tools that must say what is right."""

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
_SHOWN_MAX: Final = 1_200
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
"""What tools read, by the word that stands for it after `file:`; `copy:` is of the broker's."""


class Line(NamedTuple):
    """A command as an operator types it, and what is to be read in the answer."""

    command: str
    answer: str = ""
    """A regular expression, in which names stand for themselves."""
    exit_code: int = 0
    input: str = ""
    tool: str = ""
    """Where it is another than the one that the scenario is about."""
    seconds: float = 0
    """How long it is asked again, where what it tells of comes a little later."""


@dataclass(slots=True)
class ToolFixture:
    """A topic with six records in two partitions, each a millisecond after the other."""

    context: ScenarioContext
    actor: Actor = field(init=False)
    names: dict[str, str] = field(init=False)
    """What stands for `{topic}` and the others in commands, answers and files."""

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

    def types(self, tool: str, line: Line) -> str:
        """Run a tool, which must answer as the line says; return all that it said."""
        deadline = time.monotonic() + line.seconds
        while True:
            try:
                return self._types(line.tool or tool, line)
            except ScenarioFailedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)

    def _types(self, tool: str, line: Line) -> str:
        told = self.actor.do(
            "run_tool", tool=tool, arguments=self.arguments(tool, line.command), input=line.input
        )
        said: str = told["output"] + told["errors"]
        shown = f"{tool} {line.command}: {said[-_SHOWN_MAX:]}"
        must_equal(told["exit_code"], line.exit_code, f"the exit code of {shown}")
        wanted = self.filled_in(line.answer, escaped=True)
        must(re.search(wanted, said, re.MULTILINE), f"{wanted!r} is not in the answer of {shown}")
        return said

    def arguments(self, tool: str, command: str) -> list[str]:
        """The words of a command; where the broker is stands at the front unless it is told."""
        words = [self._word(it) for it in shlex.split(command)]
        if "{bootstrap}" in command or tool in WITHOUT_BROKER:
            return words
        return ["--bootstrap-server", self.names["bootstrap"], *words]

    def filled_in(self, text: str, *, escaped: bool = False) -> str:
        for name, value in self.names.items():
            text = text.replace(f"{{{name}}}", re.escape(value) if escaped else value)
        return text

    def _word(self, word: str) -> str:
        """A file is written, or copied, and stands in the place of its word."""
        kind, _, named = word.partition(":")
        if kind == "file":
            file = self.context.scratch() / named
            file.write_text(self.filled_in(FILES[named]))
            return str(file)
        if kind == "copy":
            return str(shutil.copy(self.filled_in(named), self.context.scratch()))
        return self.filled_in(word)


WITHOUT_BROKER: Final = frozenset({"dump-log", "metadata-shell", "storage"})
"""Tools that read files."""
