"""Where a container begins: what its environment says becomes properties, and the broker starts.

`python -m pykbroker.cli.container` alone, or with options, is `pykbroker serve`; with a command it
is that command. Only here does the environment say anything about properties.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykbroker.cli.failure import EXIT_CANNOT_START, CannotBegin
from pykbroker.cli.main import main as command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PREFIX: Final = "KAFKA_"
DATA: Final = "/var/lib/pykbroker"
DATA_VARIABLE: Final = "PYKBROKER_DATA"
CLUSTER_VARIABLE: Final = "CLUSTER_ID"
ADVERTISED_FILE_VARIABLE: Final = "PYKBROKER_ADVERTISED_LISTENERS_FILE"
"""Whoever starts a container may know the port on the host only afterwards, and writes it here."""
FILE_SECONDS_MAX: Final = 60.0
FILE_LOOK_SECONDS: Final = 0.05

DEFAULT_LISTENERS: Final = {
    "listeners": "PLAINTEXT://0.0.0.0:9092,CONTAINER://0.0.0.0:19092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",  # the other one: this host's name
}
DEFAULTS: Final = {"group.initial.rebalance.delay.ms": "0"}
"""As in the images that people know: a test with one consumer does not wait for a second one."""
STRONGER: Final = {
    "--listen": ("listeners", "advertised.listeners"),
    "--advertise": ("advertised.listeners",),
    "--node-id": ("node.id",),
    "--rack": ("broker.rack",),
    "--data": ("log.dirs",),
    "--ephemeral": ("log.dirs",),
}
"""Options of serve, and what of the environment they take the place of."""
NO_PROPERTIES: Final = frozenset(
    {"debug", "heap.opts", "home", "opts", "port", "version", "gc.log.opts"}
    | {"jvm.performance.opts", "tools.log4j.loglevel"}
)
"""Variables of Kafka's start scripts and other images, with names as the properties have."""
BITNAMI_PREFIX: Final = "cfg."
"""Prefix of the Bitnami image. An environment that uses it sets all properties this way, so none of
them would be in force."""
NO_PROPERTY_PREFIXES: Final = ("log4j.", "jmx.", "port.", "service.")


def main(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ
) -> int:
    """Run one command in the words of `pykbroker`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given == ["--version"]:
            return command(given)
        if not given or given[0].startswith("-"):
            return command(["serve", *options_of(environment, given), *given])
        if given[0] == "serve":
            return command(["serve", *options_of(environment, given), *given[1:]])
        if given[0] == "health":
            return command(["health", "--bootstrap", own_address(environment), *given[1:]])
    except CannotBegin as reason:
        print(f"container: {reason}", file=sys.stderr)
        return EXIT_CANNOT_START
    return command(given)


# --- what serve is told


def options_of(environment: Mapping[str, str], given: Iterable[str]) -> list[str]:
    words = {it.partition("=")[0] for it in given}
    named = known(properties_of(environment))
    has_file = "--config" in words  # whose values would be overridden
    properties = named if has_file else {**DEFAULTS, **named}
    if not has_file and "listeners" not in named:
        properties = {**DEFAULT_LISTENERS, **properties}
    advertised_file = environment.get(ADVERTISED_FILE_VARIABLE)
    if advertised_file:
        properties["advertised.listeners"] = awaited(Path(advertised_file))
    for word in words & set(STRONGER):
        for name in STRONGER[word]:
            properties.pop(name, None)
    options = [word for name, value in properties.items() for word in ("--set", f"{name}={value}")]
    if {"--data", "--ephemeral"} & words:
        return options
    data = properties.get("log.dirs") or environment.get(DATA_VARIABLE, DATA)
    claim(Path(data), environment, properties)
    return options if "log.dirs" in properties else [*options, "--data", data]


def properties_of(environment: Mapping[str, str]) -> dict[str, str]:
    """`KAFKA_LOG_RETENTION_HOURS` is log.retention.hours, as in other images of Kafka."""
    named = {
        property_name(variable.removeprefix(PREFIX)): value
        for variable, value in sorted(environment.items())
        if variable.startswith(PREFIX)
    }
    return {
        name: value
        for name, value in named.items()
        if name not in NO_PROPERTIES and not name.startswith(NO_PROPERTY_PREFIXES)
    }


def property_name(variable: str) -> str:
    """One underscore is a dot, two are one, three are a dash."""
    words = variable.lower().replace("___", "-").replace("__", "\0")
    return words.replace("_", ".").replace("\0", "_")


def known(properties: dict[str, str]) -> dict[str, str]:
    """Without names that Kafka does not know: an orchestrator sets variables of its own.

    One that was meant to protect data or access is refused.
    """
    from pykbroker.settings.guards import refuse_guards  # noqa: PLC0415  # only serve needs it
    from pykbroker.settings.load import unknown_property  # noqa: PLC0415  # likewise
    from pykbroker.settings.table import ALIASES, BROKER  # noqa: PLC0415  # likewise
    from pykbroker.settings.without_effect import is_known_to_kafka  # noqa: PLC0415  # likewise

    found, unknown = {}, {}
    for name, value in properties.items():
        if name in BROKER or name in ALIASES or is_known_to_kafka(name):
            found[ALIASES.get(name, name)] = value
        else:
            unknown[name] = value
    refusal = refuse_guards(unknown)
    if refusal:
        raise CannotBegin(refusal)
    for name in unknown:
        if name.startswith(BITNAMI_PREFIX):
            meant = name.removeprefix(BITNAMI_PREFIX).upper().replace(".", "_")
            raise CannotBegin(f"KAFKA_CFG_{meant} is not supported, use KAFKA_{meant}")
        print(f"container: {unknown_property(name)}; ignored", file=sys.stderr)
    return found


def awaited(path: Path) -> str:
    """What a file says as soon as it is there and its line has ended."""
    deadline = time.monotonic() + FILE_SECONDS_MAX
    while time.monotonic() < deadline:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text.endswith("\n"):
            return text.strip()
        time.sleep(FILE_LOOK_SECONDS)
    raise CannotBegin(f"nobody has written {path} within {FILE_SECONDS_MAX:g} s")


def without_controllers(properties: dict[str, str]) -> dict[str, str]:
    """Without the controller's listener, which the broker does not open."""
    theirs = {
        it.strip().upper() for it in properties.get("controller.listener.names", "").split(",")
    }
    kept = dict(properties)
    for name in ("listeners", "advertised.listeners"):
        if name in kept:
            each = [it.strip() for it in kept[name].split(",")]
            kept[name] = ",".join(it for it in each if listener_name(it) not in theirs)
    return kept


def listener_name(listener: str) -> str:
    return listener.partition("://")[0].upper()


def claim(data: Path, environment: Mapping[str, str], properties: Mapping[str, str]) -> None:
    """A new directory belongs to the cluster that the environment names."""
    cluster_id = environment.get(CLUSTER_VARIABLE)
    if not cluster_id:
        return
    from pykbroker.clock import SystemChance  # noqa: PLC0415  # serve alone needs it
    from pykbroker_storage.checkpoint import (  # noqa: PLC0415  # likewise
        META_PROPERTIES_FILE,
        MetaProperties,
    )

    target, node_id = data / META_PROPERTIES_FILE, properties.get("node.id", "1")
    if not target.exists() and node_id.isdecimal():  # another one is refused by serve
        own = MetaProperties(
            cluster_id=cluster_id,
            node_id=int(node_id),
            directory_id=SystemChance().uuid_bytes(),
        )
        data.mkdir(parents=True, exist_ok=True)
        target.write_bytes(own.encode())


# --- what health is told


def own_address(environment: Mapping[str, str]) -> str:
    """The first listener, from within."""
    given = properties_of(environment)
    properties = without_controllers({**DEFAULT_LISTENERS, **given})
    _, _, address = properties["listeners"].partition(",")[0].partition("://")
    host, _, port = address.rpartition(":")
    return f"{'127.0.0.1' if host in ('', '0.0.0.0', '[::]') else host}:{port}"  # noqa: S104  # recognised, not bound


if __name__ == "__main__":
    sys.exit(main())
