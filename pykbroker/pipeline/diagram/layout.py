"""Computes the position of each box: in a column after its inputs, near their height."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.diagram.graph import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pykbroker.pipeline.diagram.graph import Arrow, Box, Graph

WIDTH: Final = 250
COLUMN_GAP: Final = 70
ROW_GAP: Final = 26
MARGIN: Final = 24
HEAD_HEIGHT: Final = 46
LINE_HEIGHT: Final = 17
LINES_MAX: Final = 7
PASSING_HEIGHT: Final = 4
ENDS: Final = (Shape.TOPIC, Shape.DIRECTORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBox:
    box: Box
    x: float
    y: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    placed: Mapping[str, PlacedBox]
    routes: Mapping[Arrow, tuple[float, ...]]
    """Height of an arrow in each column between its ends."""
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a column: contains a box or a passing arrow."""

    name: str
    column: int
    height: float
    inputs: tuple[str, ...]


def lay_out(graph: Graph) -> Layout:
    depths = depths_of(graph)
    cells = [*box_cells(graph, depths), *passing_cells(graph, depths)]
    columns = [
        [cell for cell in cells if cell.column == number] for number in range(1 + last(depths))
    ]
    tallest = max(map(column_height, columns))
    tops: dict[str, float] = {}
    middles: dict[str, float] = {}
    for column in columns:
        column.sort(key=lambda cell: mean_input_height(cell, middles))
        y = MARGIN + (tallest - column_height(column)) / 2
        for cell in column:
            tops[cell.name], middles[cell.name] = y, y + cell.height / 2
            y += cell.height + ROW_GAP
    placed = {
        box.name: PlacedBox(
            box=box, x=column_x(depths[box.name]), y=tops[box.name], height=height_of(box)
        )
        for box in graph.boxes
    }
    routes = {arrow: tuple(middles[it] for it in passing(arrow, depths)) for arrow in graph.arrows}
    width = column_x(last(depths)) + WIDTH + MARGIN
    return Layout(placed=placed, routes=routes, width=width, height=tallest + 2 * MARGIN)


def depths_of(graph: Graph) -> dict[str, int]:
    """Returns the column of each box: after its inputs. Sinks share a column, and so do targets."""
    depths = {box.name: 0 for box in graph.boxes}
    for _ in graph.boxes:
        for arrow in graph.arrows:
            depths[arrow.end] = max(depths[arrow.end], depths[arrow.start] + 1)
    sinks = [box.name for box in graph.boxes if box.shape is Shape.SINK]
    fed = {arrow.end for arrow in graph.arrows}
    ends = [it.name for it in graph.boxes if it.shape in ENDS and it.name in fed]
    sink_depth = max((depths[name] for name in sinks), default=0)
    end_depth = max([sink_depth + 1, *(depths[name] for name in ends)])
    return depths | dict.fromkeys(sinks, sink_depth) | dict.fromkeys(ends, end_depth)


def last(depths: Mapping[str, int]) -> int:
    return max(depths.values())


def column_x(column: int) -> float:
    return MARGIN + column * (WIDTH + COLUMN_GAP)


def box_cells(graph: Graph, depths: Mapping[str, int]) -> Iterator[Cell]:
    for box in graph.boxes:
        inputs = tuple(
            (passing(arrow, depths) or (arrow.start,))[-1]
            for arrow in graph.arrows
            if arrow.end == box.name
        )
        yield Cell(name=box.name, column=depths[box.name], height=height_of(box), inputs=inputs)


def passing_cells(graph: Graph, depths: Mapping[str, int]) -> Iterator[Cell]:
    for arrow in graph.arrows:
        input_name = arrow.start
        for number, name in enumerate(passing(arrow, depths), depths[arrow.start] + 1):
            yield Cell(name=name, column=number, height=PASSING_HEIGHT, inputs=(input_name,))
            input_name = name


def passing(arrow: Arrow, depths: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the cells of an arrow in the columns between its ends."""
    between = range(depths[arrow.start] + 1, depths[arrow.end])
    return tuple(f"{arrow.start} -> {arrow.end} in {column}" for column in between)


def mean_input_height(cell: Cell, middles: Mapping[str, float]) -> float:
    """Returns the mean height of the inputs of a cell, by which a column is sorted."""
    heights = [middles[it] for it in cell.inputs]
    return sum(heights) / len(heights) if heights else 0.0


def height_of(box: Box) -> float:
    shown = min(len(box.lines), LINES_MAX)
    return HEAD_HEIGHT + (shown * LINE_HEIGHT + 8 if shown else 0)


def column_height(column: list[Cell]) -> float:
    return sum(cell.height for cell in column) + ROW_GAP * (len(column) - 1)
