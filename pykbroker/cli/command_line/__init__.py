"""What can be typed after `pykbroker`: the words, their options and their help.

Nothing here imports what a command needs to do its work, so that every command starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import CommandParser, new_root

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

DECLARED_IN = {
    "serve": "serve",
    "topics": "topics",
    "produce": "records",
    "consume": "records",
    "groups": "groups",
    "transactions": "transactions",
    "configs": "configs",
    "cluster": "cluster",
    "api-versions": "cluster",
    "health": "health",
    "log": "logs",
    "pipeline": "pipeline",
    "control": "control",
    "proxy": "proxy",
    "completion": "completion",
}
"""Each first word and the module that declares it: one command loads one of them."""

BELONG_TO_ROOT = ("-h", "--help", "--version")


def read_command_line(arguments: Sequence[str]) -> Namespace:
    """The options of one command; ends the process after --help, --version and mistakes."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in BELONG_TO_ROOT):
        arguments = ["serve", *arguments]
    module = DECLARED_IN.get(arguments[0])
    modules = DECLARED_IN.values() if module is None else (module,)
    return build_parser(modules).parse_args(arguments)


def build_parser(modules: Iterable[str] = DECLARED_IN.values()) -> CommandParser:
    """Of the whole command line, or of the part that is asked for."""
    root, commands = new_root()
    for module in dict.fromkeys(modules):
        import_module(f"pykbroker.cli.command_line.{module}").declare(commands)
    return root
