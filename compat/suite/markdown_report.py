"""Markdown report, for pull requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compat.suite.results import NOT_RUN
from compat.suite.terminal import summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat.suite.results import Results


def report(results: Results) -> str:
    lines = [
        "# Compatibility",
        "",
        (
            f"Run on {results.day} in {results.seconds:.0f} s;"
            f" PyKBroker {results.suite}, {results.machine}."
        ),
        "",
        *(f"- {line}" for line in summary(results)),
        "",
        *matrix(results),
        *failures(results),
        *reasons(results),
    ]
    return "\n".join(lines).rstrip() + "\n"


def matrix(results: Results) -> Iterator[str]:
    """Yields a table for each subject. A cell has one symbol per broker."""
    cells = results.by_place()
    for subject, scenarios in results.subjects().items():
        yield f"## {subject.capitalize()}"
        yield ""
        clients = results.players(subject)
        yield f"| | {' | '.join(clients)} |"
        yield f"|---|{'---|' * len(clients)}"
        for name, sentence in scenarios:
            signs = [
                " ".join(
                    found.outcome.sign if found else " "
                    for broker in results.brokers
                    for found in [cells.get((name, client, broker))]
                )
                for client in clients
            ]
            yield f"| **{name}**: {sentence} | {' | '.join(signs)} |"
        yield ""


def failures(results: Results) -> Iterator[str]:
    if not results.failures():
        return
    yield "## Failed"
    yield ""
    for cell in results.failures():
        yield f"### {cell.scenario} · {cell.client} · {cell.broker}"
        yield ""
        yield "```"
        yield cell.reason
        yield "```"
        yield ""
        yield "<details><summary>frames</summary>"
        yield ""
        yield "```"
        for frame in cell.frames[-20:]:
            yield frame.headline
            yield from (f"    {line}" for line in frame.lines)
        yield "```"
        yield ""
        yield "</details>"
        yield ""


def reasons(results: Results) -> Iterator[str]:
    """Yields each reason for cells that did not run, once."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in results.cells:
        if cell.outcome in NOT_RUN:
            scenarios = found.setdefault((cell.client, cell.reason), [])
            if cell.scenario not in scenarios:
                scenarios.append(cell.scenario)
    if not found:
        return
    yield "## Not run"
    yield ""
    for (client, reason), scenarios in sorted(found.items()):
        yield f"- {client}: {reason} ({', '.join(scenarios)})"
    yield ""
