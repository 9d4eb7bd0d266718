"""Looks up message declarations by API key or record type."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import Message

if TYPE_CHECKING:
    from types import ModuleType

_MESSAGES = "pykbroker_protocol.messages"
_RECORDS = ("cluster", "control", "security", "topics")


def request_of(api_key: int) -> type[Message] | None:
    """Returns the request declaration of an API, or None if there is none."""
    return _declared(api_key, "Request")


def response_of(api_key: int) -> type[Message] | None:
    """Returns the response declaration of an API, or None if there is none."""
    return _declared(api_key, "Response")


def record_of(record_type: int) -> type[Message] | None:
    """Returns the declaration of a metadata log record, or None if there is none."""
    return _records().get(record_type)


def _declared(api_key: int, suffix: str) -> type[Message] | None:
    module = _module(api_key)
    if module is None:
        return None
    api = "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    declared: type[Message] = getattr(module, api + suffix)
    return declared


@cache
def _module(api_key: int) -> ModuleType | None:
    """Imports the message module of an API; it has the name of the API key."""
    if api_key not in ApiKey.__members__.values():
        return None
    name = f"{_MESSAGES}.{ApiKey(api_key).name.lower()}"
    return import_module(name) if find_spec(name) else None


@cache
def _records() -> dict[int, type[Message]]:
    modules = (import_module(f"pykbroker_protocol.metadata.{name}") for name in _RECORDS)
    return {
        it.record_type: it
        for module in modules
        for it in vars(module).values()
        if isinstance(it, type) and issubclass(it, Message) and it.record_type >= 0
    }
