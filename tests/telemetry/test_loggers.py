"""Levels of loggers are read and changed at run time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from pykbroker.telemetry.loggers import (
    LEVEL_NAMES,
    inherit_level,
    logger_levels,
    set_level,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "pykbroker.test_loggers"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    yield logger
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("level", LEVEL_NAMES)
def test_a_level_that_was_set_is_returned(level: str, logger: logging.Logger) -> None:
    set_level(logger.name, level)
    assert logger_levels()[NAME] == level


def test_a_level_enables_and_disables_lines(logger: logging.Logger) -> None:
    set_level(NAME, "WARN")
    assert not logger.isEnabledFor(logging.INFO)
    set_level(NAME, "DEBUG")
    assert logger.isEnabledFor(logging.DEBUG)


def test_a_logger_without_a_level_inherits_that_of_its_package(logger: logging.Logger) -> None:
    logging.getLogger("pykbroker").setLevel(logging.ERROR)
    try:
        set_level(logger.name, "DEBUG")
        inherit_level(NAME)
        assert logger_levels()[NAME] == "ERROR"
    finally:
        logging.getLogger("pykbroker").setLevel(logging.NOTSET)


def test_only_the_root_and_the_loggers_of_the_broker_are_listed(logger: logging.Logger) -> None:
    assert logger.name in logger_levels()
    others = [it for it in logger_levels() if not it.startswith("pykbroker")]
    assert others == ["root"]
