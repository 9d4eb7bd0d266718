"""What a tool said of a broker, without what no two brokers have in common."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat.apache.tools import Completed

PLAIN_WORDS = (
    (re.compile(r"127\.0\.0\.1:?\s?\d+"), "HERE"),
    (re.compile(r"TopicId: \S+"), "TopicId: ID"),
    (re.compile(r"Cluster ?I[Dd]: .*"), "CLUSTER"),
    (re.compile(r"\b[12]\d{12}\b"), "TIME"),
    (re.compile(r"(HighWatermark|LeaderEpoch): .*"), r"\1"),
    (re.compile(r"^(1\s+\S{22}\s+)\d+(\s+0\s+TIME)"), r"\1END\2"),
    # Controllers have a door of their own in Apache Kafka, but not here.
    (re.compile(r', "endpoints": \["CONTROLLER://\w+"\]'), ""),
    # Eligible leader replicas, finalised there, store a default for the whole cluster.
    (re.compile(r"^  min\.insync\.replicas=.*"), ""),
    (re.compile(r"min\.insync\.replicas=1,?"), ""),
    (re.compile(r"^\s+|\s+$"), ""),
    (re.compile(r"\s+"), " "),
)
ERRORS = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)")


class Saying(NamedTuple):
    """Sentences of failures are each broker's own, so those are told by kind."""

    exit_code: int
    errors: frozenset[str]
    lines: list[str]


def saying(done: Completed, data: str) -> Saying:
    everything = done.stdout + done.stderr
    errors = frozenset(ERRORS.findall(everything))
    lines = [] if errors or done.returncode else sorted(plain_lines(done.stdout, data))
    return Saying(done.returncode, errors, lines)


def plain_lines(text: str, data: str) -> Iterator[str]:
    for line in text.splitlines():
        plain = line.replace(data, "DATA")
        if plain.startswith("{"):
            plain = json.dumps(in_order(json.loads(plain)))
        for pattern, word in PLAIN_WORDS:
            plain = pattern.sub(word, plain)
        if plain:
            yield plain


def in_order(value: Any) -> Any:
    """Lists in JSON are sets to these tools."""
    if isinstance(value, dict):
        return {key: in_order(it) for key, it in sorted(value.items())}
    if isinstance(value, list):
        return sorted(map(in_order, value), key=json.dumps)
    return value
