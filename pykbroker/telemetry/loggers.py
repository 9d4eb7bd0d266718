"""How much each part of the broker tells its operator, seen and changed while it runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "root"
PACKAGES = ("pykbroker", "pykbroker_storage")

_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
"""Under the names that Kafka's tools have for them, the quietest first."""

LEVEL_NAMES = tuple(_LEVELS)


def logger_levels() -> dict[str, str]:
    """What each logger lets through, be it told so or by inheritance."""
    return {name: _level_name(_logger(name)) for name in logger_names()}


def logger_names() -> Iterator[str]:
    """The root, the packages, and the modules of theirs that have logged or could."""
    yield ROOT
    yield from PACKAGES
    prefixes = tuple(f"{package}." for package in PACKAGES)
    known = logging.Logger.manager.loggerDict
    yield from sorted(
        name
        for name, found in known.items()
        if name.startswith(prefixes) and isinstance(found, logging.Logger)
    )


def set_level(name: str, level_name: str) -> None:
    _logger(name).setLevel(_LEVELS[level_name])


def inherit_level(name: str) -> None:
    """Back to what the logger above it lets through."""
    assert name != ROOT, "there is nothing above the root"
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(logger: logging.Logger) -> str:
    """The name of the quietest level that lets all of this through."""
    level = logger.getEffectiveLevel()
    return next((name for name, it in _LEVELS.items() if it <= level), "TRACE")
