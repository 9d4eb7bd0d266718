"""Entry point of the container: turns environment variables into properties and starts the broker.

`python -m pykbroker.cli.container [OPTIONS]` runs `pykbroker serve`; with a command, it runs that
command. Outside of a container, environment variables set no properties.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykbroker.cli.failure import CannotBegin, ExitCode
from pykbroker.cli.main import main as run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PREFIX: Final = "KAFKA_"
DATA: Final = "/var/lib/pykbroker"
DATA_VARIABLE: Final = "PYKBROKER_DATA"
CLUSTER_VARIABLE: Final = "CLUSTER_ID"
ADVERTISED_FILE_VARIABLE: Final = "PYKBROKER_ADVERTISED_LISTENERS_FILE"
"""A file for the advertised listeners, if the port on the host is only known after the start."""
FILE_TIMEOUT_SECONDS: Final = 60.0
FILE_POLL_SECONDS: Final = 0.05

DEFAULT_LISTENERS: Final = {
    "listeners": "PLAINTEXT://0.0.0.0:9092,CONTAINER://0.0.0.0:19092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",  # CONTAINER: the host name
}
DEFAULTS: Final = {"group.initial.rebalance.delay.ms": "0"}
"""As in other Kafka images: a test with one consumer does not wait for a second one."""
OVERRIDDEN_BY: Final = {
    "--listen": ("listeners", "advertised.listeners"),
    "--advertise": ("advertised.listeners",),
    "--node-id": ("node.id",),
    "--rack": ("broker.rack",),
    "--data": ("log.dirs",),
    "--ephemeral": ("log.dirs",),
    "--roles": ("process.roles",),
    "--controllers": ("controller.quorum.bootstrap.servers",),
    "--guest": ("cordoned.log.dirs",),
}
"""Options of `serve` and the properties of the environment that they override."""
OTHER_VARIABLES: Final = frozenset(
    {"debug", "heap.opts", "home", "opts", "port", "version", "gc.log.opts"}
    | {"jvm.performance.opts", "tools.log4j.loglevel"}
)
"""Variables of Kafka's start scripts and of other images, written as property names."""
BITNAMI_PREFIX: Final = "cfg."
"""Prefix of the Bitnami image. Properties set with this prefix would not take effect."""
OTHER_PREFIXES: Final = ("log4j.", "jmx.", "port.", "service.")


def main(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ
) -> int:
    """Runs one command with the arguments of `pykbroker`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given == ["--version"]:
            return run(given)
        if not given or given[0].startswith("-"):
            return run(["serve", *options_of(environment, given), *given])
        if given[0] == "serve":
            return run(["serve", *options_of(environment, given), *given[1:]])
        if given[0] == "health":
            return run(["health", "--bootstrap", own_address(environment), *given[1:]])
    except CannotBegin as reason:
        print(f"container: {reason}", file=sys.stderr)
        return ExitCode.NOT_STARTED
    return run(given)


# --- serve


def options_of(environment: Mapping[str, str], given: Iterable[str]) -> list[str]:
    """Returns the options of `serve` for the environment; options in `given` take precedence."""
    given_options = {it.partition("=")[0] for it in given}
    in_environment = known_properties(properties_of(environment))
    has_config = "--config" in given_options  # defaults would override this file
    properties = in_environment if has_config else {**DEFAULTS, **in_environment}
    if not has_config and "listeners" not in in_environment:
        properties = {**DEFAULT_LISTENERS, **properties}
    advertised_file = environment.get(ADVERTISED_FILE_VARIABLE)
    if advertised_file:
        properties["advertised.listeners"] = wait_for_file(Path(advertised_file))
    for option in given_options & set(OVERRIDDEN_BY):
        for name in OVERRIDDEN_BY[option]:
            properties.pop(name, None)
    options = [
        argument for name, value in properties.items() for argument in ("--set", f"{name}={value}")
    ]
    if {"--data", "--ephemeral"} & given_options:
        return options
    data = properties.get("log.dirs") or environment.get(DATA_VARIABLE, DATA)
    set_cluster_id(Path(data), environment, properties)
    return options if "log.dirs" in properties else [*options, "--data", data]


def properties_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Maps `KAFKA_LOG_RETENTION_HOURS` to log.retention.hours, as other Kafka images do."""
    properties = {
        property_name(variable.removeprefix(PREFIX)): value
        for variable, value in sorted(environment.items())
        if variable.startswith(PREFIX)
    }
    return {
        name: value
        for name, value in properties.items()
        if name not in OTHER_VARIABLES and not name.startswith(OTHER_PREFIXES)
    }


def property_name(variable: str) -> str:
    """Replaces `_` by a dot, `__` by an underscore and `___` by a dash."""
    words = variable.lower().replace("___", "-").replace("__", "\0")
    return words.replace("_", ".").replace("\0", "_")


def known_properties(properties: dict[str, str]) -> dict[str, str]:
    """Returns the Kafka properties; ignores other names, because orchestrators set such variables.

    Raises CannotBegin for unsupported properties that protect data or access.
    """
    from pykbroker.settings.known_names import is_known_to_kafka  # noqa: PLC0415  # likewise
    from pykbroker.settings.load import unknown_property  # noqa: PLC0415  # likewise
    from pykbroker.settings.table import ALIASES, BROKER  # noqa: PLC0415  # likewise
    from pykbroker.settings.unsupported import refuse_unsupported  # noqa: PLC0415  # only for serve

    known, unknown = {}, {}
    for name, value in properties.items():
        if name in BROKER or name in ALIASES or is_known_to_kafka(name):
            known[ALIASES.get(name, name)] = value
        else:
            unknown[name] = value
    refusal = refuse_unsupported(unknown)
    if refusal:
        raise CannotBegin(refusal)
    for name in unknown:
        if name.startswith(BITNAMI_PREFIX):
            variable = name.removeprefix(BITNAMI_PREFIX).upper().replace(".", "_")
            raise CannotBegin(f"KAFKA_CFG_{variable} is not supported, use KAFKA_{variable}")
        print(f"container: {unknown_property(name)}; ignored", file=sys.stderr)
    return known


def wait_for_file(path: Path) -> str:
    """Returns the contents of a file once it exists and ends with a newline."""
    deadline = time.monotonic() + FILE_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text.endswith("\n"):
            return text.strip()
        time.sleep(FILE_POLL_SECONDS)
    raise CannotBegin(
        f"timed out after {FILE_TIMEOUT_SECONDS:g} s waiting for {path} (advertised listeners)"
    )


def without_controllers(properties: dict[str, str]) -> dict[str, str]:
    """Removes the controller listeners, which the broker does not open."""
    controller_listeners = {
        it.strip().upper() for it in properties.get("controller.listener.names", "").split(",")
    }
    kept = dict(properties)
    for name in ("listeners", "advertised.listeners"):
        if name in kept:
            each = [it.strip() for it in kept[name].split(",")]
            kept[name] = ",".join(
                it for it in each if listener_name(it) not in controller_listeners
            )
    return kept


def listener_name(listener: str) -> str:
    return listener.partition("://")[0].upper()


def set_cluster_id(
    data: Path, environment: Mapping[str, str], properties: Mapping[str, str]
) -> None:
    """Writes meta.properties with `CLUSTER_ID` to a new data directory."""
    cluster_id = environment.get(CLUSTER_VARIABLE)
    if not cluster_id:
        return
    from pykbroker.clock import SystemRandomness  # noqa: PLC0415  # only for serve
    from pykbroker_storage.checkpoint import (  # noqa: PLC0415  # likewise
        META_PROPERTIES_FILE,
        MetaProperties,
    )

    target, node_id = data / META_PROPERTIES_FILE, properties.get("node.id", "1")
    if not target.exists() and node_id.isdecimal():  # serve rejects an invalid node id
        own = MetaProperties(
            cluster_id=cluster_id,
            node_id=int(node_id),
            directory_id=SystemRandomness().uuid_bytes(),
        )
        data.mkdir(parents=True, exist_ok=True)
        target.write_bytes(own.encode())


# --- health


def own_address(environment: Mapping[str, str]) -> str:
    """Returns the address of the first listener, as seen inside the container."""
    given = properties_of(environment)
    properties = without_controllers({**DEFAULT_LISTENERS, **given})
    _, _, address = properties["listeners"].partition(",")[0].partition("://")
    host, _, port = address.rpartition(":")
    return f"{'127.0.0.1' if host in ('', '0.0.0.0', '[::]') else host}:{port}"  # noqa: S104  # recognised, not bound


if __name__ == "__main__":
    sys.exit(main())
