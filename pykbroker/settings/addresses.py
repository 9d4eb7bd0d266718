"""Parses listeners and connection limits in property values."""

from typing import NamedTuple

from pykbroker.settings.property import Value, invalid_value


class Listener(NamedTuple):
    """A listener address; an empty host means all interfaces."""

    name: str
    host: str
    port: int


def parse_listener(text: str) -> Listener:
    """Parses `NAME://host:port`, with IPv6 addresses in brackets; raises ValueError."""
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    in_brackets = host.startswith("[") and host.endswith("]")
    well_formed = name and separator and colon and (in_brackets or ":" not in host)
    if not well_formed or not _is_number(port) or int(port) > 65_535:
        raise ValueError(f"{text} does not have the form NAME://host:port")
    return Listener(name.upper(), host[1:-1] if in_brackets else host, int(port))


def connections_by_host(text: str) -> dict[str, int]:
    """Parses `host:connections` pairs between commas; raises ValueError."""
    pairs = (entry.strip().rpartition(":") for entry in text.split(",") if entry.strip())
    connections = {}
    for host, _, count in pairs:
        if not host or not _is_number(count):
            raise ValueError("Entries must have the form host:connections")
        connections[host] = int(count)
    return connections


def security_protocols(text: str) -> dict[str, str]:
    """Parses `NAME:PROTOCOL` pairs between commas; returns protocols by listener name."""
    pairs = (it.strip().upper().partition(":") for it in text.split(","))
    return {name: protocol for name, _, protocol in pairs}


def check_listeners(name: str, value: Value) -> str | None:
    """Validates listeners with distinct names."""
    assert isinstance(value, tuple)
    try:
        names = [parse_listener(each).name for each in value]
    except ValueError as reason:
        return invalid_value(name, ",".join(value), str(reason))
    if len(set(names)) < len(names):
        return invalid_value(name, ",".join(value), "Each listener must have a different name")
    return None


def check_own_listeners(name: str, value: Value) -> str | None:
    """Validates at least one listener with distinct names."""
    if not value:
        return f"requirement failed: At least one listener must be defined via {name}."
    return check_listeners(name, value)


def check_connections_by_host(name: str, value: Value) -> str | None:
    assert isinstance(value, str)
    try:
        connections_by_host(value)
    except ValueError as reason:
        return invalid_value(name, value, str(reason))
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
