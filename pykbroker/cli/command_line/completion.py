"""`pykbroker completion`: prints completion scripts for shells."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands


def declare(commands: Commands) -> None:
    completion = commands.add(
        "completion",
        run="completion:completion",
        brief="Print a shell completion script",
        examples=(
            "source <(pykbroker completion bash)",
            "pykbroker completion zsh > ~/.zfunc/_pykbroker",
            "pykbroker completion fish > ~/.config/fish/completions/pykbroker.fish",
        ),
    )
    completion.add_argument(
        "shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"
    )
