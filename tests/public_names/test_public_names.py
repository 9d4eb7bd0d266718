"""Pins the public names and signatures of the three packages: they change only on purpose.

After an intended change, write the new lists with
`PYKBROKER_ACCEPT_NAMES=1 .venv/bin/pytest tests/public_names` and commit them.
"""

from __future__ import annotations

import ast
import os
import re
from importlib import import_module
from importlib.util import find_spec
from inspect import (
    Parameter,
    get_annotations,
    getattr_static,
    isclass,
    iscoroutinefunction,
    isfunction,
    ismodule,
    signature,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import pykbroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
ACCEPT: Final = "PYKBROKER_ACCEPT_NAMES"
DOCUMENTED: Final = re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
"""Names and modules in the API reference."""
OPTIONAL: Final = "pykbroker.testing.containers"
"""Needs an extra."""
IN_GUIDES: Final = (
    "pykbroker.testing.active_fault.ActiveFault",
    "pykbroker.testing.active_fault.FaultMatchedNothing",
    "pykbroker.testing.async_broker.NotRunning",
    "pykbroker.testing.async_broker.TopicRefused",
    "pykbroker.testing.inspection.NotReadable",
    "pykbroker.testing.inspection.TooFewRecords",
    "pykbroker.testing.inspection.UnknownTopic",
    "pykbroker.testing.looking",
    "pykbroker.testing.matchers.a_record",
    "pykbroker.testing.matchers.containing",
    "pykbroker.testing.matchers.in_any_order",
    "pykbroker.testing.movable_clock.MovableClock",
    "pykbroker.testing.plugin.kafka",
    "pykbroker.testing.plugin.kafka_broker",
    "pykbroker.testing.plugin.kafka_config",
    "pykbroker.testing.recording.proxy.Recorder",
    "pykbroker.testing.replaying.differences.ReplayDiffers",
    "pykbroker.testing.replaying.player.Replay",
    "pykbroker.testing.seeding.NotWritten",
    "pykbroker.testing.simulation",
    "pykbroker.testing.timeline.Timeline",
)
"""Names in docs/embedded.md, docs/testing.md and docs/simulation.md, also as types of methods."""


def names_of_pykbroker() -> Iterator[str]:
    found = set(DOCUMENTED) | set(IN_GUIDES)
    described_as: dict[int, str] = {}
    for name in [*(f"pykbroker.{it}" for it in pykbroker.__all__), *sorted(found)]:
        if name.startswith(OPTIONAL) and find_spec("testcontainers") is None:
            continue
        value = resolved(name)
        if id(value) in described_as:
            yield f"{name} = {described_as[id(value)]}"
        else:
            described_as[id(value)] = name
            yield from described(name, value)


def used_names(package: str) -> Iterator[str]:
    """The names that the package above imports: the interface between the packages."""
    used: set[str] = set()
    for source in (ROOT / "pykbroker").rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package):
                used |= {f"{node.module}.{it.name}" for it in node.names}
    return filter(None, map(short_description, sorted(used)))


def short_description(name: str) -> str:
    """The name, with the signature of a function; empty if the name does not exist at runtime."""
    value = resolved(name)
    if value is None:
        return ""
    return f"{name}{signature_of(value)}" if isfunction(value) else name


def resolved(name: str) -> Any:
    """The value of a name, or the module; None if it does not exist, or only for type checkers."""
    parent, _, last = name.rpartition(".")
    module = import_module(parent)
    if hasattr(module, last):
        return getattr(module, last)
    is_module = hasattr(module, "__path__") and find_spec(name) is not None
    return import_module(name) if is_module else None


def described(name: str, value: Any) -> Iterator[str]:
    if isclass(value):
        bases = [it.__name__ for it in value.__bases__ if it is not object]
        yield f"{name}({', '.join(bases)})" if bases else name
        yield from (f"{name}.{it}" for it in sorted(members_of(value)))
    elif isfunction(value):
        yield f"{name}{signature_of(value)}"
    elif ismodule(value):
        for it in sorted(getattr(value, "__all__", own_names(value))):
            yield from described(f"{name}.{it}", getattr(value, it))
    else:
        yield name


def own_names(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def members_of(kind: type) -> Iterator[str]:
    """The constructor and the public members of a class and of its bases in this project."""
    seen = set()
    for each in kind.__mro__:
        if not each.__module__.startswith("pykbroker"):
            continue
        for name in (*vars(each), *get_annotations(each)):
            if name in seen or (name.startswith("_") and name != "__init__"):
                continue
            seen.add(name)
            member = getattr_static(each, name, None)
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            yield f"{name}{signature_of(function)}" if isfunction(function) else name


def signature_of(function: Any) -> str:
    """Parameters with defaults, without annotations, whose text depends on the Python version."""
    found = signature(function)
    parameters = [
        it.replace(annotation=Parameter.empty, default=plain_default(it.default))
        for it in found.parameters.values()
    ]
    is_coroutine = iscoroutinefunction(getattr(function, "__wrapped__", function))
    text = str(found.replace(parameters=parameters, return_annotation=Parameter.empty))
    return f"{text} (coroutine)" if is_coroutine else text


class ComputedDefault:
    def __repr__(self) -> str:
        return "…"


COMPUTED: Final = ComputedDefault()


def plain_default(value: object) -> object:
    is_plain = value is None or isinstance(value, bool | int | float | str | tuple | bytes)
    return value if is_plain or value is Parameter.empty else COMPUTED


def pinned_names(package: str, found: Iterator[str]) -> list[str]:
    """The pinned list. Writes the found names first if the environment says so."""
    file = HERE / f"{package}.txt"
    if os.environ.get(ACCEPT):
        file.write_text("".join(f"{it}\n" for it in found), encoding="utf-8")
    return file.read_text(encoding="utf-8").splitlines()


def report(changes: list[str]) -> str:
    hint = f"If intended: {ACCEPT}=1 .venv/bin/pytest tests/public_names"
    return "\n".join(["", *changes, hint])


def test_documented_names_change_only_on_purpose() -> None:
    found = list(names_of_pykbroker())
    expected = pinned_names("pykbroker", iter(found))
    if find_spec("testcontainers") is None:
        expected = [it for it in expected if not it.startswith(OPTIONAL)]
    removed = [f"- {it}" for it in expected if it not in found]
    added = [f"+ {it}" for it in found if it not in expected]
    assert not removed + added, report(removed + added)


@pytest.mark.parametrize("package", ["pykbroker_protocol", "pykbroker_storage"])
def test_names_that_the_broker_uses_stay(package: str) -> None:
    """A new import of the broker does not fail this test; a removed or changed name does."""
    removed = []
    for expected in pinned_names(package, used_names(package)):
        try:
            found = short_description(expected.partition("(")[0])
        except ImportError:
            found = ""
        if found != expected:
            removed.append(f"- {expected}")
    assert not removed, report(removed)
