"""Sends the same requests to two brokers and reports differences of the responses."""

from __future__ import annotations

import secrets
from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from compat.probe.allowed import Difference
from compat.probe.normalized import Normalized, differences
from compat.probe.probe_requests import SKIPPED, probe_requests
from compat.probe.probed_broker import ProbedBroker
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from compat.probe.allowed import Allowed
    from compat.probe.probed_broker import Address, PendingResponse
    from pykbroker_protocol.message import Message

CUT_BYTES = (1, 5, 12)
UNSERVED_VERSION = "unsupported version"
VERSION_RANGE = "versions served"
VALUE_TEXT_MAX = 160


@dataclass(slots=True)
class Comparison:
    """Result of a comparison."""

    requests: int = 0
    """Requests sent to each broker."""
    only_left: list[str] = field(default_factory=list)
    only_right: list[str] = field(default_factory=list)
    differences_found: dict[Difference, list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Each difference with the versions in which it occurs."""

    def unexpected(self, allowed: Sequence[Allowed]) -> dict[Difference, list[int]]:
        return {
            it: versions
            for it, versions in self.differences_found.items()
            if not any(one.covers(it) for one in allowed)
        }


def compare(
    left: Address,
    right: Address,
    *,
    apis: Sequence[str] = (),
    thorough: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compares all APIs and versions that both brokers support.

    Boundary values are sent in the newest version only, with `thorough` in all versions.
    """
    compared = Comparison()
    word = secrets.token_hex(3)
    with ProbedBroker(left, word) as one, ProbedBroker(right, word) as other:
        for name, side in (("left", one), ("right", other)):
            if count := side.topic_count():
                progress(f"the {name} broker has {count} topics, which will differ")
        compared.only_left = sorted(ApiKey(it).name for it in one.served.keys() - other.served)
        compared.only_right = sorted(ApiKey(it).name for it in other.served.keys() - one.served)
        pairs: list[_ResponsePair] = []
        for key in sorted(one.served.keys() & other.served.keys()):
            name = ApiKey(key).name
            if apis and not _is_selected(name, apis):
                continue
            _compare_ranges(compared, name, one.served[key], other.served[key])
            request = request_of(key)
            if request is not None and name not in SKIPPED:
                pairs += _compare_api(one, other, request, thorough=thorough)
                progress(f"{name}: {len(pairs)} requests so far")
        compared.requests = len(pairs)
        for it in pairs:
            both = one.resolved(it.left), other.resolved(it.right)
            for path, ours, theirs in differences("", *both):
                place = Difference(it.api, it.note, path, _frozen(ours), _frozen(theirs))
                compared.differences_found[place].append(it.version)
    return compared


def _compare_ranges(
    compared: Comparison, name: str, left: tuple[int, int], right: tuple[int, int]
) -> None:
    if left != right:
        texts = ("-".join(map(str, it)) for it in (left, right))
        compared.differences_found[Difference(name, "", VERSION_RANGE, *texts)] += [
            max(left[1], right[1])
        ]


class _ResponsePair(NamedTuple):
    """The responses of both brokers to a request."""

    api: str
    version: int
    note: str
    left: Normalized | PendingResponse
    right: Normalized | PendingResponse


def _compare_api(
    one: ProbedBroker, other: ProbedBroker, request: type[Message], *, thorough: bool
) -> Iterator[_ResponsePair]:
    left, right = one.served[request.api], other.served[request.api]
    shared = range(max(left[0], right[0]), min(left[1], right[1]) + 1)
    known = [it for it in shared if it in request.versions]
    for side in (one, other):
        side.create_targets(_target_name(request, version) for version in known)
    for version in known:
        with_boundaries = thorough or version == known[-1]
        yield from _compare_version(one, other, request, version, with_boundaries=with_boundaries)
    if left == right and known:
        unserved = {shared[0] - 1, *shared, shared[-1] + 1} - {*known, -1}
        yield from _compare_unserved_versions(
            one, other, request, _target_name(request, known[-1]), sorted(unserved)
        )


def _target_name(request: type[Message], version: int) -> str:
    return f"{request.api}-{version}"


def _compare_version(
    one: ProbedBroker,
    other: ProbedBroker,
    request: type[Message],
    version: int,
    *,
    with_boundaries: bool,
) -> Iterator[_ResponsePair]:
    """Compares one version. Each broker has its own topic and group for these requests."""
    api = ApiKey(request.api).name
    name = _target_name(request, version)
    pairs = zip(
        probe_requests(request, version, one.targets[name]),
        probe_requests(request, version, other.targets[name]),
        strict=True,
    )
    for ours, theirs in pairs:
        yield _ResponsePair(api, version, ours.note, one.response(ours), other.response(theirs))
        if not with_boundaries:
            return
    for cut in CUT_BYTES:
        parts = (it.response_to_truncated(name, cut, request, version) for it in (one, other))
        yield _ResponsePair(api, version, f"{cut} bytes cut off", *parts)


def _compare_unserved_versions(
    one: ProbedBroker,
    other: ProbedBroker,
    request: type[Message],
    targets: str,
    versions: Iterable[int],
) -> Iterator[_ResponsePair]:
    """Compares versions below and above the supported range, and those not implemented here."""
    for version in versions:
        responses = (it.response_to_unserved(targets, request, version) for it in (one, other))
        yield _ResponsePair(ApiKey(request.api).name, version, UNSERVED_VERSION, *responses)


def _is_selected(name: str, apis: Sequence[str]) -> bool:
    return any(fnmatchcase(name.replace("_", "").lower(), it.lower()) for it in apis)


def _frozen(value: Normalized) -> Any:
    return value if isinstance(value, (str, int, float, type(None))) else repr(value)


def difference_lines(found: dict[Difference, list[int]]) -> Iterator[str]:
    """Yields one line for each difference, with all its versions."""
    for it, versions in sorted(found.items(), key=lambda pair: tuple(map(str, pair[0]))):
        shown = ",".join(map(str, sorted(set(versions))))
        yield f"{it.place}, v{shown}: {_shortened(it.left)} | {_shortened(it.right)}"


def _shortened(value: Any) -> str:
    text = repr(value)
    if len(text) <= VALUE_TEXT_MAX:
        return text
    return f"{text[:VALUE_TEXT_MAX]}… ({len(text)} characters)"
