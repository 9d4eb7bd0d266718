"""Draws the diagram as self-contained SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.diagram.graph import Shape
from pykbroker.pipeline.diagram.layout import (
    COLUMN_GAP,
    HEAD_HEIGHT,
    LINE_HEIGHT,
    LINES_MAX,
    WIDTH,
    lay_out,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.pipeline.diagram.graph import Arrow, Box, Graph
    from pykbroker.pipeline.diagram.layout import Layout, PlacedBox

LINE_CHARACTERS: Final = 37
TITLE_CHARACTERS: Final = 27
CORNERS: Final = {Shape.TOPIC: HEAD_HEIGHT / 2, Shape.DIRECTORY: 2}
CARD_CORNER: Final = 8


def svg_of(graph: Graph) -> str:
    layout = lay_out(graph)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Pipeline diagram" '
            f'width="{layout.width:g}" height="{layout.height:g}" '
            f'viewBox="0 0 {layout.width:g} {layout.height:g}">'
        ),
        TIP,
        *(arrow_svg(arrow, layout) for arrow in graph.arrows),
        *(box_svg(placed) for placed in layout.placed.values()),
        "</svg>",
    ]
    return "\n".join(parts)


TIP: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8Z"/></marker></defs>'
)


def arrow_svg(arrow: Arrow, layout: Layout) -> str:
    """Returns the path of an arrow, which is horizontal in the columns that it passes."""
    start, end = layout.placed[arrow.start], layout.placed[arrow.end]
    x, y = start.x + WIDTH, start.middle
    path = f"M{x:g} {y:g}"
    for height in layout.routes[arrow]:
        path += bend(x, y, x + COLUMN_GAP, height) + f"h{WIDTH}"
        x, y = x + COLUMN_GAP + WIDTH, height
    path += bend(x, y, end.x - 2, end.middle)
    kind = "arrow broken" if arrow.is_for_broken else "arrow"
    return f'<path class="{kind}" d="{path}" marker-end="url(#tip)"/>'


def bend(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return f"C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"


def box_svg(placed: PlacedBox) -> str:
    box = placed.box
    corner = CORNERS.get(box.shape, CARD_CORNER)
    rows = [
        f'<g class="{box.shape.value}" transform="translate({placed.x:g} {placed.y:g})">',
        f"<title>{escape(whole_text(box))}</title>",
        f'<rect width="{WIDTH}" height="{placed.height:g}" rx="{corner:g}"/>',
        f'<text class="kind" x="16" y="18">{escape(box.kind)}</text>',
        f'<text class="name" x="16" y="36">{escape(shortened(box.title, TITLE_CHARACTERS))}</text>',
        *line_texts(box),
        "</g>",
    ]
    return "\n".join(rows)


def line_texts(box: Box) -> Iterator[str]:
    lines = list(box.lines)
    if len(lines) > LINES_MAX:
        lines = [*lines[: LINES_MAX - 1], "…"]
    for number, line in enumerate(lines):
        y = HEAD_HEIGHT + 10 + number * LINE_HEIGHT
        yield f'<text class="line" x="16" y="{y}">{escape(shortened(line, LINE_CHARACTERS))}</text>'


def shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def whole_text(box: Box) -> str:
    """Returns the untruncated text, shown as tooltip."""
    return "\n".join((f"{box.title} ({box.kind})", *box.lines))
