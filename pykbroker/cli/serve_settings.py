"""Maps the options of `serve` to Kafka properties.

Precedence, lowest first: defaults of this command, --config, other options, --set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.cli.failure import CannotBegin
from pykbroker.settings import parse_properties
from pykbroker.settings.table import ALIASES

if TYPE_CHECKING:
    from argparse import Namespace

# Without security settings, the broker listens on loopback only.
DEFAULTS: Final = {"listeners": "PLAINTEXT://127.0.0.1:9092"}
# Tests with one consumer do not wait for further members.
EPHEMERAL_DEFAULTS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


def given_properties(options: Namespace, data: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the properties of --config with defaults, and the properties that override them."""
    named = {ALIASES.get(name, name): value for name, value in options.settings}
    overrides = {**option_properties(options, data), **named}
    in_file = read_config(options.config) if options.config else {}
    reject_undecodable(overrides)
    defaults = {**DEFAULTS, **EPHEMERAL_DEFAULTS} if options.ephemeral else DEFAULTS
    return {**defaults, **in_file}, overrides


def reject_undecodable(properties: dict[str, str]) -> None:
    """Rejects values that are not UTF-8, because records store them. Paths can be any bytes."""
    for name, value in properties.items():
        if name != "log.dirs" and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise CannotBegin(f"{name}: {value!r} is not valid UTF-8")


def option_properties(options: Namespace, data: str | None) -> dict[str, str]:
    properties = {
        "listeners": options.listen and f"PLAINTEXT://{options.listen}",
        "advertised.listeners": options.advertise and f"PLAINTEXT://{options.advertise}",
        "log.dirs": data,
        "node.id": None if options.node_id is None else str(options.node_id),
        "broker.rack": options.rack,
        "process.roles": options.roles,
        "controller.quorum.bootstrap.servers": options.controllers,
        "cordoned.log.dirs": "*" if options.guest else None,
    }
    return {name: value for name, value in properties.items() if value is not None}


def read_config(name: str) -> dict[str, str]:
    try:
        with open(name, encoding="utf-8") as file:  # noqa: PTH123  # importing pathlib takes 3 ms
            return parse_properties(file.read())
    except OSError as reason:
        raise CannotBegin(f"--config {name}: {reason.strerror}") from reason
    except UnicodeDecodeError as reason:
        raise CannotBegin(f"--config {name}: byte {reason.start} is not valid UTF-8") from reason
