"""`pykbroker completion`: shells that know what can be typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands


def declare(commands: Commands) -> None:
    completion = commands.add(
        "completion",
        run="completion:completion",
        brief="print a script that completes this command in a shell",
        examples=(
            "source <(pykbroker completion bash)",
            "pykbroker completion zsh > ~/.zfunc/_pykbroker",
            "pykbroker completion fish > ~/.config/fish/completions/pykbroker.fish",
        ),
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
