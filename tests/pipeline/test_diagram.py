"""The diagram shows the declared pipeline on a self-contained page."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations
from typing import Any

import pytest

from pykbroker.pipeline.declaration.reading import declare
from pykbroker.pipeline.diagram.graph import Arrow, Shape, graph_of
from pykbroker.pipeline.diagram.layout import WIDTH, lay_out
from pykbroker.pipeline.diagram.page import page_of
from pykbroker.pipeline.diagram.svg import svg_of

Tables = dict[str, Any]


def fleet() -> Tables:
    return {
        "name": "fleet",
        "checkpoint": "checkpoint",
        "source": {
            "trucks": {
                "topics": ["trucks", "vans"],
                "format": "json",
                "schema": {"id": "string", "speed": "double", "at": "timestamp"},
                "event_time": "at",
                "watermark": "1 minute",
                "dead_letters": "broken",
            }
        },
        "sql": {
            "fast": {"inputs": ["trucks"], "query": "SELECT * FROM trucks WHERE speed > 90"},
            "both": {"inputs": ["fast", "trucks"], "query": "SELECT * FROM fast JOIN trucks"},
        },
        "session": {
            "drives": {
                "input": "trucks",
                "gap": "1 minute",
                "by": ["id"],
                "aggregates": {"n": "count(*)"},
            }
        },
        "archive": {"raw": {"source": "trucks", "path": "lake"}},
        "sink": {
            "fast": {"input": "fast", "kind": "topic", "topic": "alerts"},
            "drives": {"input": "drives", "kind": "topic", "topic": "alerts"},
            "both": {"input": "both", "kind": "console"},
        },
    }


SMALL: Tables = {
    "name": "small",
    "checkpoint": "checkpoint",
    "source": {"letters": {"pattern": "letters.*", "format": "raw"}},
    "sink": {"out": {"input": "letters", "kind": "memory"}},
}
ONLY_DEAD_LETTERS: Tables = {
    "name": "sorting",
    "checkpoint": "checkpoint",
    "source": {
        "trucks": {
            "topics": ["trucks"],
            "format": "csv",
            "schema": {"id": "string"},
            "dead_letters": "broken",
        }
    },
}
PIPELINES = {"fleet": fleet(), "small": SMALL, "only dead letters": ONLY_DEAD_LETTERS}


def test_boxes_and_arrows_match_the_declaration() -> None:
    graph = graph_of(declare(fleet()))
    assert {(box.name, box.shape) for box in graph.boxes} == {
        ("in:trucks", Shape.TOPIC),
        ("in:vans", Shape.TOPIC),
        ("trucks", Shape.SOURCE),
        ("fast", Shape.STEP),
        ("both", Shape.STEP),
        ("drives", Shape.STATE),
        ("archive.raw", Shape.SINK),
        ("directory:lake", Shape.DIRECTORY),
        ("out:broken", Shape.TOPIC),
        ("sink.fast", Shape.SINK),
        ("sink.drives", Shape.SINK),
        ("sink.both", Shape.SINK),
        ("out:alerts", Shape.TOPIC),
    }
    assert {(arrow.start, arrow.end) for arrow in graph.arrows if not arrow.is_for_broken} == {
        ("in:trucks", "trucks"),
        ("in:vans", "trucks"),
        ("trucks", "fast"),
        ("fast", "both"),
        ("trucks", "both"),
        ("trucks", "drives"),
        ("trucks", "archive.raw"),
        ("archive.raw", "directory:lake"),
        ("fast", "sink.fast"),
        ("drives", "sink.drives"),
        ("both", "sink.both"),
        ("sink.fast", "out:alerts"),
        ("sink.drives", "out:alerts"),
    }
    broken = Arrow(start="trucks", end="out:broken", is_for_broken=True)
    assert broken in graph.arrows


@pytest.mark.parametrize("tables", PIPELINES.values(), ids=PIPELINES)
def test_boxes_do_not_overlap_and_arrows_point_right(tables: Tables) -> None:
    graph = graph_of(declare(tables))
    layout = lay_out(graph)
    for one, other in combinations(layout.placed.values(), 2):
        is_beside = one.x + WIDTH <= other.x or other.x + WIDTH <= one.x
        is_above = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert is_beside or is_above
    for arrow in graph.arrows:
        assert layout.placed[arrow.start].x < layout.placed[arrow.end].x
    for placed in layout.placed.values():
        assert 0 <= placed.x <= layout.width - WIDTH
        assert 0 <= placed.y <= layout.height - placed.height


@pytest.mark.parametrize("tables", PIPELINES.values(), ids=PIPELINES)
def test_arrows_do_not_cross_boxes(tables: Tables) -> None:
    graph = graph_of(declare(tables))
    layout = lay_out(graph)
    for arrow, routes in layout.routes.items():
        begin = layout.placed[arrow.start].x
        passed = sorted({it.x for it in layout.placed.values() if it.x > begin})
        for x, height in zip(passed, routes, strict=False):
            column = [it for it in layout.placed.values() if it.x == x]
            assert not any(it.y < height < it.y + it.height for it in column)


@pytest.mark.parametrize("tables", PIPELINES.values(), ids=PIPELINES)
def test_diagram_is_valid_xml(tables: Tables) -> None:
    svg = svg_of(graph_of(declare(tables)))
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"


def test_page_loads_no_external_resources() -> None:
    page = page_of(declare(fleet()))
    without_namespace = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\((?!#)|<script", without_namespace)


def test_declared_texts_are_escaped() -> None:
    tables = fleet()
    tables["sql"]["fast"]["query"] = "SELECT '<script>' AS x FROM trucks WHERE speed < 5 & 1"
    page = page_of(declare(tables))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_page_lists_guarantee_and_definition_of_each_query() -> None:
    page = page_of(declare(fleet()))
    assert "<code>session.drives.gap</code> 1 minute" in page
    assert page.count("<td>exactly-once</td>") == 4
    assert page.count("<td>the batch is repeated</td>") == 1
