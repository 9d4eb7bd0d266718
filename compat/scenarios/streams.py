"""Kafka Streams counts words, each exactly once, whatever happens in between."""

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


class Counting:
    """A topic of lines, a topic of counts, and the application between them."""

    def __init__(self, context: ScenarioContext) -> None:
        self.context = context
        self.source = context.topic("lines", partitions=PARTITIONS)
        self.sink = context.topic("counts")
        self.written: Counter[str] = Counter()

    def write(self) -> None:
        """Some lines more, some for each partition."""
        for number, line in enumerate(LINES):
            partition = number % PARTITIONS
            self.context.reference.write(
                self.source, [{"value": line.encode()}], partition=partition
            )
            self.written.update(line.split())

    def start(self, name: str = "w") -> Actor:
        """One more process of the application, with a state of its own."""
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
        """Each count was told once: a word that came thrice was 1, 2 and 3, in this order."""
        wanted = {word: list(range(1, count + 1)) for word, count in self.written.items()}
        total = sum(self.written.values())
        until(lambda: len(self._committed()) >= total, "all counts", seconds=COUNTED_SECONDS)
        found: dict[str, list[int]] = {}
        for word, count in self._committed():
            found.setdefault(word, []).append(count)
        must_equal(found, wanted, "the counts of each word")

    def _committed(self) -> list[tuple[str, int]]:
        """What readers of committed records see."""
        reader = self.context.reference.committed_records(self.sink)
        return [((it.key or b"").decode(), int(it.value or b"0")) for it in reader]


@scenario(
    "streams-word-count",
    "Words are counted exactly once (v2).",
    timeout_seconds=SECONDS,
    core=True,
)
def word_count(context: ScenarioContext) -> None:
    counting = Counting(context)
    counting.write()
    actor = counting.start()
    counting.until_counted()
    must_equal(actor.do("state", "w")["state"], "RUNNING", "the state")
    counting.write()
    counting.until_counted()
    actor.close("w")


@scenario(
    "streams-resumes",
    "A closed application continues in another process.",
    timeout_seconds=SECONDS,
)
def resumes(context: ScenarioContext) -> None:
    counting = Counting(context)
    counting.write()
    first = counting.start()
    counting.until_counted()
    first.close("w")
    counting.write()
    counting.start()
    counting.until_counted()


@scenario(
    "streams-takes-over",
    "Of two processes one is killed; the other continues its counts exactly once.",
    timeout_seconds=SECONDS,
)
def takes_over(context: ScenarioContext) -> None:
    counting = Counting(context)
    counting.write()
    first = counting.start("first")
    counting.start("second")
    counting.until_counted()
    counting.write()
    context.kill(first)
    counting.write()
    counting.until_counted()


@scenario(
    "streams-outlives-a-restart",
    "The broker restarts, and the counts stay exactly once.",
    needs=frozenset({Need.RESTART}),
    timeout_seconds=SECONDS,
)
def outlives_a_restart(context: ScenarioContext) -> None:
    counting = Counting(context)
    counting.write()
    counting.start()
    counting.until_counted()
    context.restart(counting.source, partitions=PARTITIONS)
    counting.write()
    counting.until_counted()
