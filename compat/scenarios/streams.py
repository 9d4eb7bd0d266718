"""Scenarios of Kafka Streams: a word count with exactly-once semantics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from compat.suite.actor import until
from compat.suite.assertions import must_equal
from compat.suite.scenario import Need, scenario

if TYPE_CHECKING:
    from compat.suite.actor import Actor
    from compat.suite.scenario_context import ScenarioContext

SECONDS = 240.0
COUNTED_SECONDS = 90.0
LINES = ("the quick brown fox", "jumps over the lazy dog", "the end of the line")
PARTITIONS = 2


class WordCounts:
    """The word count application with its source and sink topics."""

    def __init__(self, context: ScenarioContext) -> None:
        self.context = context
        self.source = context.topic("lines", partitions=PARTITIONS)
        self.sink = context.topic("counts")
        self.written: Counter[str] = Counter()

    def write(self) -> None:
        """Writes lines to each partition."""
        for number, line in enumerate(LINES):
            partition = number % PARTITIONS
            self.context.reference.write(
                self.source, [{"value": line.encode()}], partition=partition
            )
            self.written.update(line.split())

    def start(self, name: str = "w") -> Actor:
        """Starts another process of the application with its own state directory."""
        actor = self.context.client()
        actor.do(
            "open_word_count",
            name,
            bootstrap=actor.bootstrap,
            client_id=f"compat-{actor.name}",
            application=self.context.name("application"),
            source=self.source,
            sink=self.sink,
            directory=str(self.context.scratch() / actor.name),
        )
        return actor

    def until_counted(self) -> None:
        """Waits for all counts and checks them: each word has the counts 1, 2, 3, … in order."""
        expected = {word: list(range(1, count + 1)) for word, count in self.written.items()}
        total = sum(self.written.values())
        until(lambda: len(self._committed()) >= total, "all counts", seconds=COUNTED_SECONDS)
        found: dict[str, list[int]] = {}
        for word, count in self._committed():
            found.setdefault(word, []).append(count)
        must_equal(found, expected, "the counts of each word")

    def _committed(self) -> list[tuple[str, int]]:
        """Returns the committed words and counts."""
        reader = self.context.reference.committed_records(self.sink)
        return [((it.key or b"").decode(), int(it.value or b"0")) for it in reader]


@scenario(
    "streams-word-count",
    "Words are counted exactly once (v2).",
    timeout_seconds=SECONDS,
    core=True,
)
def word_count(context: ScenarioContext) -> None:
    word_counts = WordCounts(context)
    word_counts.write()
    actor = word_counts.start()
    word_counts.until_counted()
    must_equal(actor.do("state", "w")["state"], "RUNNING", "the state")
    word_counts.write()
    word_counts.until_counted()
    actor.close("w")


@scenario(
    "streams-resumes",
    "A closed application continues in another process.",
    timeout_seconds=SECONDS,
)
def resumes(context: ScenarioContext) -> None:
    word_counts = WordCounts(context)
    word_counts.write()
    first = word_counts.start()
    word_counts.until_counted()
    first.close("w")
    word_counts.write()
    word_counts.start()
    word_counts.until_counted()


@scenario(
    "streams-takes-over",
    "Of two processes one is killed; the other continues its counts exactly once.",
    timeout_seconds=SECONDS,
)
def takes_over(context: ScenarioContext) -> None:
    word_counts = WordCounts(context)
    word_counts.write()
    first = word_counts.start("first")
    word_counts.start("second")
    word_counts.until_counted()
    word_counts.write()
    context.kill(first)
    word_counts.write()
    word_counts.until_counted()


@scenario(
    "streams-outlives-a-restart",
    "The broker restarts, and the counts stay exactly once.",
    needs=frozenset({Need.RESTART}),
    timeout_seconds=SECONDS,
)
def outlives_a_restart(context: ScenarioContext) -> None:
    word_counts = WordCounts(context)
    word_counts.write()
    word_counts.start()
    word_counts.until_counted()
    context.restart(word_counts.source, partitions=PARTITIONS)
    word_counts.write()
    word_counts.until_counted()
