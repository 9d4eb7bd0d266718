"""Declares the commands of `pykbroker` with their options and help.

These modules import nothing that a command needs to run, so that parsing stays fast.
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
"""The module that declares each top-level command; only that module is imported."""

ROOT_OPTIONS = ("-h", "--help", "--version")


def read_command_line(arguments: Sequence[str]) -> Namespace:
    """Parses the options of one command. Exits after --help, --version and usage errors."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ROOT_OPTIONS):
        arguments = ["serve", *arguments]
    module = DECLARED_IN.get(arguments[0])
    modules = DECLARED_IN.values() if module is None else (module,)
    return build_parser(modules).parse_args(arguments)


def build_parser(modules: Iterable[str] = DECLARED_IN.values()) -> CommandParser:
    """Builds a parser for the commands of these modules (default: all commands)."""
    root, commands = new_root()
    for module in dict.fromkeys(modules):
        import_module(f"pykbroker.cli.command_line.{module}").declare(commands)
    return root
