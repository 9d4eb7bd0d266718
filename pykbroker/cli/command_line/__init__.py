"""What can be typed after `pykbroker`: the words, their options and their help.

Nothing here imports what a command needs to do its work, so that every command starts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line import (
    cluster,
    completion,
    configs,
    groups,
    logs,
    records,
    serve,
    topics,
)
from pykbroker.cli.command_line.parser import CommandParser, new_root

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

GROUPS = (serve, topics, records, groups, configs, cluster, logs, completion)
BELONG_TO_ROOT = ("-h", "--help", "--version")


def read_command_line(arguments: Sequence[str]) -> Namespace:
    """The options of one command; ends the process after --help, --version and mistakes."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in BELONG_TO_ROOT):
        arguments = ["serve", *arguments]
    return build_parser().parse_args(arguments)


def build_parser() -> CommandParser:
    root, commands = new_root()
    for group in GROUPS:
        group.declare(commands)
    return root
