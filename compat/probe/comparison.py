"""Asks two brokers the same questions and tells where their answers differ."""

from __future__ import annotations

import secrets
from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from compat.probe.allowed import Difference
from compat.probe.plain import Plain, differences
from compat.probe.questions import SKIPPED, questions
from compat.probe.side import Side
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from compat.probe.allowed import Allowed
    from compat.probe.side import Address, Later
    from pykbroker_protocol.message import Message

CUTS = (1, 5, 12)
BEYOND = "a version that is not served"
RANGE = "versions served"
VALUE_TEXT_MAX = 160


@dataclass(slots=True)
class Compared:
    """What came of a comparison."""

    questions: int = 0
    only_left: list[str] = field(default_factory=list)
    only_right: list[str] = field(default_factory=list)
    unlike: dict[Difference, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Every difference with the versions in which it shows."""

    def surprising(self, allowed: Sequence[Allowed]) -> dict[Difference, list[int]]:
        return {
            it: versions
            for it, versions in self.unlike.items()
            if not any(one.covers(it) for one in allowed)
        }


def compare(
    left: Address,
    right: Address,
    *,
    apis: Sequence[str] = (),
    thorough: bool = False,
    told: Callable[[str], None] = lambda _: None,
) -> Compared:
    """Over every API and version that both serve; boundary values in the newest unless thorough."""
    compared = Compared()
    word = secrets.token_hex(3)
    with Side(left, word) as one, Side(right, word) as other:
        for name, side in (("left", one), ("right", other)):
            if count := side.topic_count():
                told(f"the {name} one holds {count} topics already, which will differ")
        compared.only_left = sorted(ApiKey(it).name for it in one.served.keys() - other.served)
        compared.only_right = sorted(ApiKey(it).name for it in other.served.keys() - one.served)
        answered: list[_Answered] = []
        for key in sorted(one.served.keys() & other.served.keys()):
            name = ApiKey(key).name
            if apis and not _named(name, apis):
                continue
            _compare_ranges(compared, name, one.served[key], other.served[key])
            request = request_of(key)
            if request is not None and name not in SKIPPED:
                answered += _ask_of(one, other, request, thorough=thorough)
                told(f"{name}: {len(answered)} questions so far")
        compared.questions = len(answered)
        for it in answered:
            both = one.come_by_now(it.left), other.come_by_now(it.right)
            for path, ours, theirs in differences("", *both):
                place = Difference(it.api, it.note, path, _frozen(ours), _frozen(theirs))
                compared.unlike[place].append(it.version)
    return compared


def _compare_ranges(
    compared: Compared, name: str, left: tuple[int, int], right: tuple[int, int]
) -> None:
    if left != right:
        told = ("-".join(map(str, it)) for it in (left, right))
        compared.unlike[Difference(name, "", RANGE, *told)] += [max(left[1], right[1])]


class _Answered(NamedTuple):
    """A question that both were asked, and what each said to it."""

    api: str
    version: int
    note: str
    left: Plain | Later
    right: Plain | Later


def _ask_of(
    one: Side, other: Side, request: type[Message], *, thorough: bool
) -> Iterator[_Answered]:
    left, right = one.served[request.api], other.served[request.api]
    shared = range(max(left[0], right[0]), min(left[1], right[1]) + 1)
    known = [it for it in shared if it in request.versions]
    for side in (one, other):
        side.make_worlds(_world(request, version) for version in known)
    for version in known:
        with_boundaries = thorough or version == known[-1]
        yield from _ask_in(one, other, request, version, with_boundaries=with_boundaries)
    if left == right and known:
        beyond = {shared[0] - 1, *shared, shared[-1] + 1} - {*known, -1}
        yield from _ask_beyond(one, other, request, _world(request, known[-1]), sorted(beyond))


def _world(request: type[Message], version: int) -> str:
    return f"{request.api}-{version}"


def _ask_in(
    one: Side, other: Side, request: type[Message], version: int, *, with_boundaries: bool
) -> Iterator[_Answered]:
    """Each side has a topic and a group of its own for these questions."""
    api = ApiKey(request.api).name
    name = _world(request, version)
    pairs = zip(
        questions(request, version, one.worlds[name]),
        questions(request, version, other.worlds[name]),
        strict=True,
    )
    for ours, theirs in pairs:
        yield _Answered(api, version, ours.note, one.answer(ours), other.answer(theirs))
        if not with_boundaries:
            return
    for cut in CUTS:
        parts = (it.answer_to_part(name, cut, request, version) for it in (one, other))
        yield _Answered(api, version, f"{cut} bytes cut off", *parts)


def _ask_beyond(
    one: Side, other: Side, request: type[Message], world: str, versions: Iterable[int]
) -> Iterator[_Answered]:
    """Below the lowest, above the highest, and what is advertised for appearance's sake alone."""
    for version in versions:
        answers = (it.answer_beyond(world, request, version) for it in (one, other))
        yield _Answered(ApiKey(request.api).name, version, BEYOND, *answers)


def _named(name: str, apis: Sequence[str]) -> bool:
    return any(fnmatchcase(name.replace("_", "").lower(), it.lower()) for it in apis)


def _frozen(value: Plain) -> Any:
    return value if isinstance(value, (str, int, float, type(None))) else repr(value)


def told_lines(found: dict[Difference, list[int]]) -> Iterator[str]:
    """One line for each difference, its versions together."""
    for it, versions in sorted(found.items(), key=lambda pair: tuple(map(str, pair[0]))):
        spoken = ",".join(map(str, sorted(set(versions))))
        yield f"{it.place}, v{spoken}: {_shown(it.left)} | {_shown(it.right)}"


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) <= VALUE_TEXT_MAX:
        return text
    return f"{text[:VALUE_TEXT_MAX]}… ({len(text)} characters)"
