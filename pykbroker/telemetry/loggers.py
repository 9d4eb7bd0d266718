"""Reads and changes the levels of the broker's loggers at run time."""

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
"""Kafka's level names, from the least to the most verbose."""

LEVEL_NAMES = tuple(_LEVELS)


def logger_levels() -> dict[str, str]:
    """Returns the effective level of each logger."""
    return {name: _level_name(_logger(name)) for name in logger_names()}


def logger_names() -> Iterator[str]:
    """Yields the root, the packages, and the loggers of imported modules."""
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
    """Removes the level of a logger, so that it inherits that of its parent."""
    assert name != ROOT, "the root logger has no parent"
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(logger: logging.Logger) -> str:
    """Returns Kafka's name for the effective level of a logger."""
    level = logger.getEffectiveLevel()
    return next((name for name, it in _LEVELS.items() if it <= level), "TRACE")
