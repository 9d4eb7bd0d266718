"""Normalizes the output of a tool: removes addresses, ids, times and known differences."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat.apache.tools import Completed

REPLACEMENTS = (
    (re.compile(r"127\.0\.0\.1:?\s?\d+"), "HERE"),
    (re.compile(r"TopicId: \S+"), "TopicId: ID"),
    (re.compile(r"Cluster ?I[Dd]: .*"), "CLUSTER"),
    (re.compile(r"\b[12]\d{12}\b"), "TIME"),
    (re.compile(r"(HighWatermark|LeaderEpoch): .*"), r"\1"),
    (re.compile(r"^(1\s+\S{22}\s+)\d+(\s+0\s+TIME)"), r"\1END\2"),
    # Apache Kafka has a controller listener, PyKBroker does not.
    (re.compile(r', "endpoints": \["CONTROLLER://\w+"\]'), ""),
    # Apache Kafka with eligible leader replicas stores a cluster-wide default.
    (re.compile(r"^  min\.insync\.replicas=.*"), ""),
    (re.compile(r"min\.insync\.replicas=1,?"), ""),
    (re.compile(r"^\s+|\s+$"), ""),
    (re.compile(r"\s+"), " "),
)
ERRORS = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)")


class ToolOutput(NamedTuple):
    """Result of a tool; of errors only the classes, because messages differ between brokers."""

    exit_code: int
    errors: frozenset[str]
    lines: list[str]


def tool_output(done: Completed, data: str) -> ToolOutput:
    errors = frozenset(ERRORS.findall(done.stdout + done.stderr))
    lines = [] if errors or done.returncode else sorted(normalized_lines(done.stdout, data))
    return ToolOutput(done.returncode, errors, lines)


def normalized_lines(text: str, data: str) -> Iterator[str]:
    for line in text.splitlines():
        normalized = line.replace(data, "DATA")
        if normalized.startswith("{"):
            normalized = json.dumps(in_order(json.loads(normalized)))
        for pattern, replacement in REPLACEMENTS:
            normalized = pattern.sub(replacement, normalized)
        if normalized:
            yield normalized


def in_order(value: Any) -> Any:
    """Sorts lists, because their order in the JSON of these tools is undefined."""
    if isinstance(value, dict):
        return {key: in_order(it) for key, it in sorted(value.items())}
    if isinstance(value, list):
        return sorted(map(in_order, value), key=json.dumps)
    return value
