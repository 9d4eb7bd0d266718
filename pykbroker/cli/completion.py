"""The command `completion`: prints a completion script generated from the parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_tree import command_tree
from pykbroker.cli.completion_scripts import bash_script, fish_script, zsh_script

if TYPE_CHECKING:
    from argparse import Namespace

SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}


def completion(options: Namespace) -> int:
    print(SCRIPTS[options.shell](command_tree()), end="")
    return 0
