"""Asks two brokers the same questions and tells where their answers differ."""

from __future__ import annotations

import secrets
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from compat.probe.plain import Plain, differences, plain
from compat.probe.questions import SKIPPED, World, questions
from compat.suite.actor import until
from compat.suite.witness import Witness
from compat.wire import Closed, Wire
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import write_request
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from compat.probe.questions import Question
    from pykbroker_protocol.message import Message

Address = tuple[str, int]
ALLOWED = Path(__file__).with_name("allowed.toml")
ANSWER_SECONDS_MAX = 4.0
FIRST_ASKED: tuple[tuple[Message, int], ...] = (
    (FindCoordinatorRequest(key="compat", key_type=0), 2),
    (FindCoordinatorRequest(key="compat", key_type=1), 2),
    (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), 4),
)
CLOSED = "the connection is closed"
SILENT = "no answer in time"


class Difference(NamedTuple):
    """A field in which two answers differ, and in which versions they do."""

    api: str
    note: str
    path: str
    left: Plain
    right: Plain


class Allowed(NamedTuple):
    """A difference that is right; each part may be a pattern."""

    api: str
    note: str
    path: str
    reason: str

    def covers(self, it: Difference) -> bool:
        return (
            fnmatchcase(it.api, self.api)
            and fnmatchcase(it.note, self.note)
            and fnmatchcase(it.path, self.path)
        )


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


def read_allowed(file: Path = ALLOWED) -> list[Allowed]:
    rows = tomllib.loads(file.read_text())["allowed"]
    return [
        Allowed(it.get("api", "*"), it.get("note", "*"), it.get("path", "*"), it["reason"])
        for it in rows
    ]


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
        served = one.served(), other.served()
        compared.only_left = sorted(ApiKey(it).name for it in served[0].keys() - served[1].keys())
        compared.only_right = sorted(ApiKey(it).name for it in served[1].keys() - served[0].keys())
        for key in sorted(served[0].keys() & served[1].keys()):
            request = request_of(key)
            name = ApiKey(key).name
            if request is None or name in SKIPPED or (apis and not _named(name, apis)):
                continue
            for version in _versions(request, served[0][key], served[1][key]):
                is_last = version == min(served[0][key][1], served[1][key][1])
                asked = _compare_version(one, other, request, version, thorough or is_last)
                for note, path, ours, theirs in asked.found:
                    it = Difference(name, note, path, _frozen(ours), _frozen(theirs))
                    compared.unlike[it].append(version)
                compared.questions += asked.asked
            told(f"{name}: {len(compared.unlike)} differences so far")
    return compared


class _Asked(NamedTuple):
    asked: int
    found: list[tuple[str, str, Plain, Plain]]


def _compare_version(
    one: Side,
    other: Side,
    request: type[Message],
    version: int,
    with_boundaries: bool,  # noqa: FBT001 (private)
) -> _Asked:
    """Each side has a topic and a group of its own for these questions."""
    name = f"{request.api}-{version}"
    pairs = zip(
        questions(request, version, one.world(name)),
        questions(request, version, other.world(name)),
        strict=True,
    )
    found: list[tuple[str, str, Plain, Plain]] = []
    count = 0
    for ours, theirs in pairs:
        count += 1
        answers = one.answer(ours), other.answer(theirs)
        found += ((ours.note, *it) for it in differences("", *answers))
        if not with_boundaries:
            break
    for cut in (1, 5, 12) if with_boundaries else ():
        count += 1
        answers = (
            one.answer_to_part(name, cut, request, version),
            other.answer_to_part(name, cut, request, version),
        )
        found += ((f"{cut} bytes cut off", *it) for it in differences("", *answers))
    return _Asked(count, found)


class Side:
    """One of the two clusters, and the worlds that have been made in it."""

    def __init__(self, address: Address, word: str) -> None:
        self.host, self.port = address
        self.word = word
        self.witness = Witness(*address)
        self.wire = self._connect()
        self.worlds: dict[str, World] = {}
        self.ids: dict[bytes, str] = {}
        self._wait_for_coordinators()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()
        self.witness.close()

    def served(self) -> dict[int, tuple[int, int]]:
        answer = self.wire.ask(
            ApiVersionsRequest(client_software_name="compat", client_software_version="1"), 3
        )
        return {it.api_key: (it.min_version, it.max_version) for it in answer.api_keys}

    def _wait_for_coordinators(self) -> None:
        """A new cluster makes its internal topics when somebody first asks for them."""
        for asked, version in FIRST_ASKED:
            until(
                partial(self._has_an_answer, asked, version), f"{type(asked).__name__} is answered"
            )

    def _has_an_answer(self, asked: Message, version: int) -> bool:
        return bool(self.wire.ask(asked, version).error_code == ErrorCode.NONE)

    def world(self, name: str) -> World:
        if name not in self.worlds:
            topic = f"compat-{self.word}-{name}"
            self.witness.create_topic(topic, 1, {"retention.ms": "-1"})
            topic_id = self.witness.topic_id(topic)
            self.ids[topic_id] = f"id of {topic}"
            self.worlds[name] = World(
                topic=topic, topic_id=topic_id, group=f"{topic}-group", new_name=f"{topic}-new"
            )
        return self.worlds[name]

    def answer(self, question: Question) -> Plain:
        """An answer in plain words, or how there was none."""
        return self._outcome(
            lambda: self.wire.send(question.request, question.version),
            type(question.request),
            question.version,
        )

    def answer_to_part(self, name: str, cut: int, request: type[Message], version: int) -> Plain:
        """What comes when the last bytes of a sensible request are missing."""
        asked = next(iter(questions(request, version, self.world(name))))
        frame = b"".join(write_request(asked.request, version, 7, "test"))
        if len(frame) <= cut + 10:
            return None
        return self._outcome(lambda: self.wire.send_frame(frame[:-cut]), request, version)

    def _outcome(self, send: Callable[[], None], request: type[Message], version: int) -> Plain:
        try:
            send()
            return plain(self.wire.receive(request, version), self.ids)
        except TimeoutError:
            return self._anew(SILENT)
        except Closed:
            return self._anew(CLOSED)
        except (MalformedMessage, AssertionError) as error:
            return self._anew(f"an answer that cannot be read: {type(error).__name__}")

    def _anew(self, outcome: str) -> str:
        self.wire.close()
        self.wire = self._connect()
        return outcome

    def _connect(self) -> Wire:
        wire = Wire(self.port, host=self.host)
        wire.socket.settimeout(ANSWER_SECONDS_MAX)
        return wire


def _versions(
    request: type[Message], left: tuple[int, int], right: tuple[int, int]
) -> Iterable[int]:
    """Those that both serve and that are declared."""
    first = max(left[0], right[0], request.versions.first)
    last = min(left[1], right[1], request.versions.last)
    return range(first, last + 1)


def _named(name: str, apis: Sequence[str]) -> bool:
    return any(fnmatchcase(name.replace("_", "").lower(), it.lower()) for it in apis)


def _frozen(value: Plain) -> Any:
    return value if isinstance(value, (str, int, float, type(None))) else repr(value)


def told_lines(found: dict[Difference, list[int]]) -> Iterator[str]:
    """One line for each difference, its versions together."""
    for it, versions in sorted(found.items(), key=lambda pair: tuple(map(str, pair[0]))):
        spoken = ",".join(map(str, sorted(set(versions))))
        note = f" [{it.note}]" if it.note else ""
        yield f"{it.api} v{spoken}{note} {it.path or '(all)'}: {it.left!r} | {it.right!r}"
