"""HTML report as one self-contained page: the matrix and the details of each failure."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from compat.suite.results import NOT_RUN, Outcome
from compat.suite.terminal import summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compat.suite.results import Cell, Results

STYLE = Path(__file__).with_name("html_report.css")
_CLASSES = {
    Outcome.PASSED: "true",
    Outcome.FAILED: "false",
    Outcome.CANNOT: "cannot",
    Outcome.NOT_SERVED: "not-tried",
    Outcome.NOT_TRIED: "not-tried",
}


def report(results: Results) -> str:
    title = "PyKBroker: compatibility"
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{STYLE.read_text()}</style></head><body><main>",
        f"<h1>{title}</h1>",
        (
            f"<p>Run on {escape(results.day)} in {results.seconds:.0f} s;"
            f" PyKBroker {escape(results.suite)}, {escape(results.machine)}.</p>"
        ),
        "<ul>",
        *(f"<li>{escape(line)}</li>" for line in summary(results)),
        "</ul>",
        *_matrix(results),
        *_failures(results),
        *_not_run(results),
        "</main></body></html>",
    ]
    return "\n".join(lines) + "\n"


def _matrix(results: Results) -> Iterator[str]:
    """Yields a table for each subject, with the clients tested for it."""
    cells = results.by_place()
    for subject, scenarios in results.subjects().items():
        clients = results.players(subject)
        yield f'<h2>{escape(subject.capitalize())}</h2><div class="wide"><table>'
        yield from _head(clients, results.brokers)
        yield "<tbody>"
        for name, sentence in scenarios:
            yield f"<tr><th>{escape(name)}<small>{escape(sentence)}</small></th>"
            for client in clients:
                for broker in results.brokers:
                    yield _box(cells.get((name, client, broker)))
            yield "</tr>"
        yield "</tbody></table></div>"


def _head(clients: Sequence[str], brokers: Sequence[str]) -> Iterator[str]:
    yield '<thead><tr><th rowspan="2">scenario</th>'
    yield from (f'<th colspan="{len(brokers)}">{escape(it)}</th>' for it in clients)
    yield "</tr><tr>"
    for _ in clients:
        yield from (f'<th class="broker">{escape(it)}</th>' for it in brokers)
    yield "</tr></thead>"


def _box(cell: Cell | None) -> str:
    if cell is None:
        return "<td></td>"
    text = f"{cell.client} · {cell.broker}: {cell.outcome.label}, {cell.seconds:.1f} s."
    text = f"{text} {cell.reason}".rstrip()
    sign = cell.outcome.sign
    if cell.outcome == Outcome.FAILED:
        sign = f'<a href="#{_anchor(cell)}">{sign}</a>'
    return f'<td class="{_CLASSES[cell.outcome]}" title="{escape(text)}">{sign}</td>'


def _failures(results: Results) -> Iterator[str]:
    if results.failures():
        yield "<h2>Failed</h2>"
    for cell in results.failures():
        title = f"{cell.scenario} · {cell.client} · {cell.broker}"
        yield f'<section id="{_anchor(cell)}"><h3>{escape(title)}</h3>'
        yield f"<pre>{escape(cell.reason)}</pre>"
        yield "<details><summary>commands</summary><ol>"
        for actor, command, response in cell.steps:
            line = f"{escape(command)}<br>→ {escape(response)}"
            yield f"<li><small>{escape(actor)}</small> {line}</li>"
        yield "</ol></details>"
        yield "<details open><summary>frames before the failure</summary>"
        for frame in cell.frames:
            yield f"<details><summary><code>{escape(frame.headline)}</code></summary>"
            yield f"<pre>{escape(chr(10).join(frame.lines))}</pre></details>"
        yield "</details>"
        if cell.errors:
            yield "<details><summary>standard error of the program</summary>"
            yield f"<pre>{escape(cell.errors)}</pre></details>"
        yield "</section>"


def _not_run(results: Results) -> Iterator[str]:
    rows = {
        (cell.client, cell.reason): cell.outcome
        for cell in results.cells
        if cell.outcome in NOT_RUN
    }
    if not rows:
        return
    yield "<h2>Not run</h2><ul>"
    for (client, reason), outcome in sorted(rows.items()):
        yield f"<li>{escape(client)}, {outcome.label}: {escape(reason)}</li>"
    yield "</ul>"


def _anchor(cell: Cell) -> str:
    words = f"{cell.scenario} {cell.client} {cell.broker}"
    return escape("-".join(words.split()))
