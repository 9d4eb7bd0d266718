"""Parses the values of options: addresses, properties, topics, offsets, times, numbers."""

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
"""Longer numbers are rejected unparsed; Python refuses to parse those of some thousand digits."""
SHOWN_MAX: Final = 40
HOST_PART_MAX: Final = 63

KAFKA_SYNONYMS: Final = {"earliest": "beginning", "latest": "end"}
DURATION: Final = (
    r"p?(?:(?P<days>\d+)d)?t?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)s)?"
)


class TopicSpec(NamedTuple):
    """A topic to create at startup; -1 stands for the default of the broker."""

    name: str
    partitions: int
    replicas: int


class Anchor(Enum):
    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


class OffsetSpec(NamedTuple):
    """A position in any partition. `amount` is an offset, a time in ms, or a count before END."""

    anchor: Anchor
    amount: int = 0


class TopicChoice(NamedTuple):
    """A topic and some of its partitions; an empty tuple stands for all."""

    name: str
    partitions: tuple[int, ...] = ()


def bootstrap_default() -> str:
    return os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_DEFAULT


def address(text: str) -> Address:
    """Parses `HOST:PORT`; an IPv6 host is in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not is_between(port, 0, PORT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, use [{host}]:{port}")
    host = host.strip("[]") or "127.0.0.1"
    if not is_host_name(host):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not HOST:PORT")
    return Address(host, int(port))


def is_host_name(host: str) -> bool:
    """Returns False for a name that the resolver would raise on: empty, too long or undecodable."""
    if host.isascii():
        parts = host.removesuffix(".").split(".")
        return "\0" not in host and all(0 < len(part) <= HOST_PART_MAX for part in parts)
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def name_list(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Returns a parser of `NAME,NAME,...` that accepts only these names."""

    def read(text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(","))
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(known)}")
        return names

    return read


def loopback_address(text: str) -> Address:
    """Parses `HOST:PORT`; accepts only loopback addresses."""
    found = address(text)
    if found.host == "localhost":
        return Address("127.0.0.1", found.port)
    if found.host == "::1" or re.fullmatch(r"127(\.\d{1,3}){3}", found.host):
        return found
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a loopback address, use 127.0.0.1:{found.port}"
    )


def concrete_address(text: str) -> Address:
    """Parses `HOST:PORT`; rejects wildcard addresses, which cannot be advertised to clients."""
    found = address(text)
    if found.host in {"0.0.0.0", "::"}:  # noqa: S104  # recognised, not bound
        raise argparse.ArgumentTypeError(
            f"{text!r} is a wildcard address, clients cannot connect to it"
        )
    return found


def assignment(text: str) -> tuple[str, str]:
    """Parses `KEY=VALUE`; the value can contain further equals signs."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value


def topic_spec(text: str) -> TopicSpec:
    """Parses `NAME[:PARTITIONS[:REPLICAS]]`."""
    name, *numbers = text.split(":")
    if not name or len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME[:PARTITIONS[:REPLICAS]]")
    readers = zip(numbers, (natural, integer(0, INT16_MAX)), strict=False)
    partitions, replicas = [read(it) for it, read in readers] + [-1] * (2 - len(numbers))
    return TopicSpec(name, partitions, replicas)


def offset_spec(text: str) -> OffsetSpec:
    """Parses `beginning`, `end`, an offset, `-N` (before the end), or a time."""
    text = KAFKA_SYNONYMS.get(text, text)
    if text in {"beginning", "end"}:
        return OffsetSpec(Anchor(text))
    if re.fullmatch(r"\d+", text):
        return OffsetSpec(Anchor.OFFSET, offset(text))
    if re.fullmatch(r"-\d+", text):
        return OffsetSpec(Anchor.END, offset(text[1:]))
    if text[:1].isalpha():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a position, use beginning, end, an offset, -10 or a time"
        )
    return OffsetSpec(Anchor.TIMESTAMP, timestamp_ms(text))


def timestamp_ms(text: str) -> int:
    """Parses `@MILLISECONDS` since 1970, or a date and time, local unless it has a time zone.

    Rejects times before 1970: ListOffsets uses negative timestamps as codes, such as -1 for latest.
    """
    if text.startswith("@"):
        return integer(0, INT64_MAX)(text[1:])
    from datetime import datetime  # noqa: PLC0415  # a start does not need it

    try:
        moment_ms = round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time, use 2026-11-18T12:30 or @1795000000000"
        ) from None
    if moment_ms < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is before 1970")
    return moment_ms


def topic_choice(text: str) -> TopicChoice:
    """Parses `TOPIC[:PARTITION,...]`."""
    name, colon, numbers = text.partition(":")
    partitions = numbers.split(",") if colon else []
    if not name or not all(is_between(number, 0, INT32_MAX) for number in partitions):
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC[:PARTITION,...]")
    return TopicChoice(name, tuple(sorted({int(number) for number in partitions})))


def partition_choice(text: str) -> TopicChoice:
    """Parses `TOPIC:PARTITION`."""
    choice = topic_choice(text)
    if len(choice.partitions) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:PARTITION")
    return choice


def duration_ms(text: str) -> int:
    """Parses `1d12h`, `90m`, `1.5s`, or an ISO 8601 duration such as `PT1H30M`."""
    from datetime import timedelta  # noqa: PLC0415  # a start does not need it

    found = re.fullmatch(DURATION, text, re.IGNORECASE)
    given = {name: float(amount) for name, amount in found.groupdict("0").items()} if found else {}
    try:
        length = timedelta(**given)
    except OverflowError:
        raise argparse.ArgumentTypeError(f"duration {text!r} is too long") from None
    if not length:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration, use 2h30m, 7d or PT2H30M")
    return round(length.total_seconds() * 1000)


def seconds(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return amount


def integer(first: int, last: int) -> Callable[[str], int]:
    """Returns a parser of the integers from `first` to `last`."""

    def read(text: str) -> int:
        if not is_between(text, first, last):
            raise argparse.ArgumentTypeError(
                f"{shown(text)} is not an integer from {first} to {last}"
            )
        return int(text)

    return read


def is_between(text: str, first: int, last: int) -> bool:
    """Returns True for the text of an integer from `first` to `last`."""
    is_number = len(text) <= DIGITS_MAX and re.fullmatch(r"[+-]?\d+", text)
    return bool(is_number) and first <= int(text) <= last


def shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…")


positive: Final = integer(1, INT32_MAX)
natural: Final = integer(0, INT32_MAX)
offset: Final = integer(0, INT64_MAX)
replica_count: Final = integer(1, INT16_MAX)
shift: Final = integer(-INT64_MAX, INT64_MAX)


def separator(text: str) -> str:
    r"""Replaces the escapes `\t`, `\n`, `\0` and `\\`."""
    escapes = {"t": "\t", "n": "\n", "\\": "\\", "0": "\0"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[0]), text)
