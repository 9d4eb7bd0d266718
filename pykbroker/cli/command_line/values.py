"""The little languages of single options: addresses, settings, topics, places in a log, times."""

from __future__ import annotations

import argparse
import os
import re
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.address import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE: Final = "PYKBROKER_BOOTSTRAP"
PORT_MAX: Final = 65535
SECONDS_MAX: Final = 86_400.0
INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = 20
"""More need not be looked at; the interpreter refuses to, from a few thousand on."""
SHOWN_MAX: Final = 40
HOST_PART_MAX: Final = 63

KAFKAS_WORDS: Final = {"earliest": "beginning", "latest": "end"}
DURATION: Final = (
    r"p?(?:(?P<days>\d+)d)?t?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)s)?"
)


class TopicWish(NamedTuple):
    """A topic to exist when the broker serves; -1 leaves a number to the broker's settings."""

    name: str
    partitions: int
    replicas: int


class Anchor(Enum):
    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


class Place(NamedTuple):
    """Where in a partition to begin: `amount` is an offset, a time in ms, or a count before END."""

    anchor: Anchor
    amount: int = 0


class TopicChoice(NamedTuple):
    """Some partitions of a topic, or all of them."""

    name: str
    partitions: tuple[int, ...] = ()


def bootstrap_default() -> str:
    return os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_DEFAULT


def address(text: str) -> Address:
    """`HOST:PORT`, with brackets around an IPv6 host."""
    host, colon, port = text.rpartition(":")
    if not colon or not is_between(port, 0, PORT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT: write [{host}]:{port}")
    host = host.strip("[]") or "127.0.0.1"
    if not can_be_looked_up(host):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not HOST:PORT")
    return Address(host, int(port))


def can_be_looked_up(host: str) -> bool:
    """Whether each part of the name is neither empty nor too long, nor no text at all."""
    if host.isascii():
        parts = host.removesuffix(".").split(".")
        return "\0" not in host and all(0 < len(part) <= HOST_PART_MAX for part in parts)
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def name_list(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """A reader of `NAME,NAME,...` that takes these names alone."""

    def read(text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(","))
        strangers = [name for name in names if name not in known]
        if strangers:
            raise argparse.ArgumentTypeError(f"{strangers[0]!r} is none of {', '.join(known)}")
        return names

    return read


def loopback_address(text: str) -> Address:
    """`HOST:PORT` where nobody but this machine comes in."""
    found = address(text)
    if found.host == "localhost":
        return Address("127.0.0.1", found.port)
    if found.host == "::1" or re.fullmatch(r"127(\.\d{1,3}){3}", found.host):
        return found
    raise argparse.ArgumentTypeError(
        f"{text!r} is not on this machine: write 127.0.0.1:{found.port}"
    )


def concrete_address(text: str) -> Address:
    """`HOST:PORT` that clients can be told: not every interface at once."""
    found = address(text)
    if found.host in {"0.0.0.0", "::"}:  # noqa: S104  # recognised, not bound
        raise argparse.ArgumentTypeError(f"{text!r} is no address that clients can be told")
    return found


def assignment(text: str) -> tuple[str, str]:
    """`KEY=VALUE`; the value may hold more of the signs."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value


def topic_wish(text: str) -> TopicWish:
    """`NAME[:PARTITIONS[:REPLICAS]]`."""
    name, *numbers = text.split(":")
    if not name or len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME[:PARTITIONS[:REPLICAS]]")
    readers = zip(numbers, (natural, whole_number(0, INT16_MAX)), strict=False)
    partitions, replicas = [read(it) for it, read in readers] + [-1] * (2 - len(numbers))
    return TopicWish(name, partitions, replicas)


def place(text: str) -> Place:
    """`beginning`, `end`, an offset, `-N` before the end, or a time."""
    text = KAFKAS_WORDS.get(text, text)
    if text in {"beginning", "end"}:
        return Place(Anchor(text))
    if re.fullmatch(r"\d+", text):
        return Place(Anchor.OFFSET, offset(text))
    if re.fullmatch(r"-\d+", text):
        return Place(Anchor.END, offset(text[1:]))
    return Place(Anchor.TIMESTAMP, timestamp_ms(text))


def timestamp_ms(text: str) -> int:
    """`@MILLISECONDS` since 1970, or a date and time, local unless it names a zone.

    Not before 1970: there Kafka's own questions begin, such as -1 for the end of a log.
    """
    if text.startswith("@"):
        return whole_number(0, INT64_MAX)(text[1:])
    from datetime import datetime  # noqa: PLC0415  # a start needs no calendar

    try:
        moment_ms = round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write 2026-11-18T12:30 or @1795000000000"
        ) from None
    if moment_ms < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is before 1970")
    return moment_ms


def topic_choice(text: str) -> TopicChoice:
    """`TOPIC[:PARTITION,...]`."""
    name, colon, numbers = text.partition(":")
    partitions = numbers.split(",") if colon else []
    if not name or not all(is_between(number, 0, INT32_MAX) for number in partitions):
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC[:PARTITION,...]")
    return TopicChoice(name, tuple(sorted({int(number) for number in partitions})))


def partition_choice(text: str) -> TopicChoice:
    """`TOPIC:PARTITION`."""
    choice = topic_choice(text)
    if len(choice.partitions) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:PARTITION")
    return choice


def duration_ms(text: str) -> int:
    """`1d12h`, `90m`, `1.5s`, or as ISO 8601 has it: `PT1H30M`."""
    from datetime import timedelta  # noqa: PLC0415  # likewise

    found = re.fullmatch(DURATION, text, re.IGNORECASE)
    given = {name: float(amount) for name, amount in found.groupdict("0").items()} if found else {}
    try:
        length = timedelta(**given)
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is too long a duration") from None
    if not length:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 2h30m, 7d or PT2H30M")
    return round(length.total_seconds() * 1000)


def seconds(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return amount


def whole_number(first: int, last: int) -> Callable[[str], int]:
    """A reader of the whole numbers from the first to the last: of those that fit the wire."""

    def read(text: str) -> int:
        if not is_between(text, first, last):
            raise argparse.ArgumentTypeError(
                f"{shown(text)} is not a whole number from {first} to {last}"
            )
        return int(text)

    return read


def is_between(text: str, first: int, last: int) -> bool:
    """Whether it is a whole number, and not outside of these."""
    is_number = len(text) <= DIGITS_MAX and re.fullmatch(r"[+-]?\d+", text)
    return bool(is_number) and first <= int(text) <= last


def shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…")


positive: Final = whole_number(1, INT32_MAX)
natural: Final = whole_number(0, INT32_MAX)
offset: Final = whole_number(0, INT64_MAX)
replica_count: Final = whole_number(1, INT16_MAX)
shift: Final = whole_number(-INT64_MAX, INT64_MAX)


def separator(text: str) -> str:
    r"""Text in which `\t`, `\n` and `\\` mean what they mean in a program."""
    escapes = {"t": "\t", "n": "\n", "\\": "\\", "0": "\0"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[0]), text)
