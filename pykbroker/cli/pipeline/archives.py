"""The commands for archives, refused in one line where what they need is not installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pykbroker.cli.failure import CannotBegin
from pykbroker.extras import how_to_install

if TYPE_CHECKING:
    from argparse import Namespace

NEEDED: Final = {"pyarrow": "pyarrow", "confluent_kafka": "confluent-kafka"}


def verify(options: Namespace) -> int:
    return checked("verify", options)


def replay(options: Namespace) -> int:
    return checked("replay", options)


def checked(command: str, options: Namespace) -> int:
    missing = [name for module, name in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise CannotBegin(f"{' and '.join(missing)} must be installed: {how_to_install('spark')}")
    exit_code: int = getattr(import_module(f"pykbroker.cli.pipeline.{command}"), command)(options)
    return exit_code
