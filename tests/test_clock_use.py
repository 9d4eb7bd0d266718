"""The rooms of the broker take time from the injected clock, so that a test can move it.

Transport is not among them: its time limits belong to sockets (idle connections, unread responses,
a full table of file descriptors), and a client does not lose its connection because a test moves
the broker's clock.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import pykbroker

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(pykbroker.__file__).parent
ROOMS = [
    "apis",
    "broker.py",
    "controller",
    "coordination",
    "coordinators",
    "metadata",
    "partitions",
    "reconciler.py",
]
OF_THE_LOOP = frozenset({"call_later", "call_at", "time"})
OF_ASYNCIO = frozenset({"sleep", "timeout", "timeout_at", "wait_for"})

ALLOWED: Final = {
    ("partitions/off_loop.py", "import time"): "a pause of a thread that holds the interpreter",
    ("coordinators/coordinated_topic.py", "wait(timeout=)"): "bounds the start of a test broker",
}


def modules() -> list[Path]:
    return [
        path
        for room in ROOMS
        for path in ([PACKAGE / room] if room.endswith(".py") else (PACKAGE / room).rglob("*.py"))
    ]


def uses_of_other_clocks(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if (isinstance(node, ast.Import) and any(it.name == "time" for it in node.names)) or (
            isinstance(node, ast.ImportFrom) and node.module == "time"
        ):
            yield "import time"
        elif isinstance(node, ast.Attribute) and node.attr in OF_THE_LOOP:
            receiver = ast.unparse(node.value)
            if receiver.endswith(("loop", "loop()")):
                yield f"loop.{node.attr}"
        elif isinstance(node, ast.Call):
            yield from waits_of_asyncio(node)


def waits_of_asyncio(call: ast.Call) -> Iterator[str]:
    function = call.func
    if not isinstance(function, ast.Attribute) or ast.unparse(function.value) != "asyncio":
        return
    yields_once = function.attr == "sleep" and ast.unparse(call.args[0]) == "0"
    if function.attr in OF_ASYNCIO and not yields_once:
        yield f"asyncio.{function.attr}"
    if function.attr == "wait" and any(it.arg == "timeout" for it in call.keywords):
        yield "wait(timeout=)"


@pytest.mark.parametrize("path", modules(), ids=lambda it: str(it.relative_to(PACKAGE)))
def test_broker_time_comes_from_the_injected_clock(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    found = set(uses_of_other_clocks(path.read_text(encoding="utf-8")))
    assert found == {use for file, use in ALLOWED if file == name}


@pytest.mark.parametrize(
    "line",
    [
        "asyncio.get_running_loop().time()",
        "now = loop.time",
        "self._loop.call_later(1, done)",
        "await asyncio.sleep(pause)",
        "async def f():\n    async with asyncio.timeout(1): ...",
        "from time import monotonic",
    ],
)
def test_another_clock_is_found(line: str) -> None:
    assert list(uses_of_other_clocks(line))


def test_the_injected_clock_and_yielding_to_the_loop_are_allowed() -> None:
    assert not list(uses_of_other_clocks("self._clock.call_later(1, done)\nasyncio.sleep(0)"))
