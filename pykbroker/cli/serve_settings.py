"""Which of Kafka's properties the options of `serve` stand for, and which of them wins.

Weakest first: what this command does without being told, --config, options of their own, --set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.cli.failure import CannotBegin
from pykbroker.settings import parse_properties
from pykbroker.settings.table import ALIASES

if TYPE_CHECKING:
    from argparse import Namespace

# A broker that nobody has secured yet is not for the whole network.
DEFAULTS: Final = {"listeners": "PLAINTEXT://127.0.0.1:9092"}
# Whoever starts a broker for a test does not want to wait for members that will not come.
EPHEMERAL_DEFAULTS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


def given_properties(options: Namespace, data: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """The properties of the file with our defaults beneath, and those that override them."""
    named = {ALIASES.get(name, name): value for name, value in options.settings}
    overrides = {**option_properties(options, data), **named}
    in_file = read_config(options.config) if options.config else {}
    refuse_what_is_no_text(overrides)
    defaults = {**DEFAULTS, **EPHEMERAL_DEFAULTS} if options.ephemeral else DEFAULTS
    return {**defaults, **in_file}, overrides


def refuse_what_is_no_text(properties: dict[str, str]) -> None:
    """A path may be of any bytes; all else is written into records, as UTF-8."""
    for name, value in properties.items():
        if name != "log.dirs" and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise CannotBegin(f"{name}: {value!r} is no text")


def option_properties(options: Namespace, data: str | None) -> dict[str, str]:
    properties = {
        "listeners": options.listen and f"PLAINTEXT://{options.listen}",
        "advertised.listeners": options.advertise and f"PLAINTEXT://{options.advertise}",
        "log.dirs": data,
        "node.id": None if options.node_id is None else str(options.node_id),
        "broker.rack": options.rack,
    }
    return {name: value for name, value in properties.items() if value is not None}


def read_config(name: str) -> dict[str, str]:
    try:
        with open(name, encoding="utf-8") as file:  # noqa: PTH123  # pathlib costs a start 3 ms
            return parse_properties(file.read())
    except OSError as reason:
        raise CannotBegin(f"--config {name}: {reason.strerror}") from reason
    except UnicodeDecodeError as reason:
        raise CannotBegin(f"--config {name}: byte {reason.start} is no text") from reason
