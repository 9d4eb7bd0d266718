"""HTML page with the diagram and a table of queries."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.declaration.values import Archive, Sink, SinkKind
from pykbroker.pipeline.diagram.graph import graph_of
from pykbroker.pipeline.diagram.svg import svg_of
from pykbroker.pipeline.fingerprint import fingerprint_of
from pykbroker.pipeline.plan import guarantee_of, queries_of

if TYPE_CHECKING:
    from pykbroker.pipeline.declaration.values import Pipeline
    from pykbroker.pipeline.plan import Query, Target

STYLE: Final = """
:root { color-scheme: light dark; --ground: #fbfbfa; --ink: #1d2330; --faint: #667085;
  --card: #ffffff; --edge: #cfd4dc; --topic: #0e7490; --source: #2563eb; --step: #6b7280;
  --state: #9333ea; --sink: #15803d; --directory: #a16207; --broken: #dc2626; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171c; --ink: #e6e8ec;
  --faint: #98a2b3; --card: #1d2129; --edge: #3a414d; --topic: #22d3ee; --source: #60a5fa;
  --step: #9ca3af; --state: #c084fc; --sink: #4ade80; --directory: #facc15; --broken: #f87171; } }
body { margin: 0; padding: 24px; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 8px; }
p { margin: 2px 8px 12px; color: var(--faint); }
figure { margin: 0; overflow-x: auto; }
svg { display: block; font-family: ui-monospace, monospace; }
svg rect { fill: var(--card); stroke: var(--edge); stroke-width: 1.5; }
svg text { fill: var(--ink); }
svg .name { font: 600 15px system-ui, sans-serif; }
svg .kind { font: 11px system-ui, sans-serif; fill: var(--faint); }
svg .line { font-size: 10px; fill: var(--faint); }
svg .arrow { fill: none; stroke: var(--faint); stroke-width: 1.5; }
svg .broken { stroke: var(--broken); stroke-dasharray: 5 4; }
svg marker path { fill: var(--faint); }
svg .topic rect { stroke: var(--topic); } svg .source rect { stroke: var(--source); }
svg .step rect { stroke: var(--step); } svg .state rect { stroke: var(--state); }
svg .sink rect { stroke: var(--sink); } svg .directory rect { stroke: var(--directory); }
table { border-collapse: collapse; margin: 20px 8px; }
th, td { text-align: left; vertical-align: top; padding: 6px 18px 6px 0;
  border-bottom: 1px solid var(--edge); }
th { font-weight: 600; color: var(--faint); }
code { font: 13px ui-monospace, monospace; }
.broken-ink { color: var(--broken); } .state-ink { color: var(--state); }
"""


def page_of(pipeline: Pipeline) -> str:
    """Returns a self-contained HTML page."""
    rows = "\n".join(query_row(pipeline, query) for query in queries_of(pipeline))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(pipeline.name)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(pipeline.name)}</h1>
<p>Topics on {escape(pipeline.bootstrap)}; checkpoints in {escape(pipeline.checkpoint)};
<span class="state-ink">stateful steps</span>,
<span class="broken-ink">broken records</span></p>
<figure>
{svg_of(graph_of(pipeline))}
</figure>
<table>
<tr><th>Query</th><th>After a crash</th><th>Definition in the checkpoint</th></tr>
{rows}
</table>
</body>
</html>
"""


def query_row(pipeline: Pipeline, query: Query) -> str:
    parts = fingerprint_of(pipeline, query)
    kept = "<br>".join(
        f"<code>{escape(part)}</code> {escape(value)}" for part, value in parts.items()
    )
    outcome = escape(outcome_text(query.target))
    return f"<tr><td><code>{escape(query.name)}</code></td><td>{outcome}</td><td>{kept}</td></tr>"


def outcome_text(target: Target) -> str:
    """Returns what readers of a target see after a crash and restart."""
    guarantee = guarantee_of(target)
    if guarantee is not None:
        return guarantee.value
    match target:
        case Archive() | Sink(kind=SinkKind.PARQUET | SinkKind.DELTA):
            return "exactly-once"
        case _:
            return "the batch is repeated"
