"""JUnit XML report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from compat.suite.results import NOT_RUN, Outcome

if TYPE_CHECKING:
    from compat.suite.results import Cell, Results

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML forbids, even escaped."""


def report(results: Results) -> str:
    """Returns a document with one test suite for each client and broker."""
    root = ET.Element("testsuites", name="compatibility")
    for client in results.clients:
        for broker in results.brokers:
            cells = [it for it in results.cells if (it.client, it.broker) == (client, broker)]
            suite = ET.SubElement(root, "testsuite", _counts(cells))
            suite.set("name", f"{client} · {broker}")
            for cell in cells:
                suite.append(_case(cell))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(cells: list[Cell]) -> dict[str, str]:
    skipped = sum(it.outcome in NOT_RUN for it in cells)
    return {
        "tests": str(len(cells)),
        "failures": str(sum(it.outcome == Outcome.FAILED for it in cells)),
        "skipped": str(skipped),
        "time": f"{sum(it.seconds for it in cells):.3f}",
    }


def _case(cell: Cell) -> ET.Element:
    case = ET.Element(
        "testcase",
        name=cell.scenario,
        classname=f"{cell.client} · {cell.broker}",
        time=f"{cell.seconds:.3f}",
    )
    if cell.outcome == Outcome.FAILED:
        first = cell.reason.splitlines()[0] if cell.reason else ""
        failure = ET.SubElement(case, "failure", message=_clean(first))
        failure.text = _clean(_details(cell))
    elif cell.outcome != Outcome.PASSED:
        ET.SubElement(case, "skipped", message=_clean(cell.reason))
    return case


def _details(cell: Cell) -> str:
    lines = [cell.reason, ""]
    for frame in cell.frames:
        lines += [frame.headline, *(f"    {line}" for line in frame.lines)]
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
