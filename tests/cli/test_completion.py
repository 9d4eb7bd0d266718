"""Completion scripts, run in the installed shells."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.missing_tool import find_program
from pykbroker.cli.command_tree import command_tree
from pykbroker.cli.completion import SCRIPTS, bash_script, fish_script, zsh_script

BASH_HARNESS = """
source "$1"
pykbroker() {
    [[ "$*" == "topics list --names"* ]] && echo "trucks depots"
    [[ "$*" == "groups list --names"* ]] && echo "readers writers"
    [[ "$*" == "transactions list --names"* ]] && echo "depot-1 depot-2"
}
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_pykbroker
echo "${COMPREPLY[*]}"
"""

ZSH_HARNESS = """
compdef() { :; }
_describe() { shift; [[ $1 == option ]] && shift; echo "${(P)@[-1]}"; }
_files() { echo files "$@"; }
pykbroker() {
    [[ "$*" == "topics list --names"* ]] && print -l trucks depots
    [[ "$*" == "groups list --names"* ]] && print -l readers writers
    [[ "$*" == "transactions list --names"* ]] && print -l depot-1 depot-2
}
source "$1"
shift
words=("$@") CURRENT=$# PREFIX="${@[-1]}"
_pykbroker
"""

FISH_HARNESS = """
function pykbroker
    string match -q "topics list --names*" "$argv"; and echo trucks\\ndepots
    string match -q "groups list --names*" "$argv"; and echo readers\\nwriters
    string match -q "transactions list --names*" "$argv"; and echo depot-1\\ndepot-2
end
source $argv[1]
complete -C (string join " " -- $argv[2..-1])
"""


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_has_no_syntax_errors(shell: str, tmp_path: Path) -> None:
    script = saved(SCRIPTS[shell], tmp_path)
    subprocess.run([find_program(shell), "-n", script], check=True, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("topics", "de"), {"describe", "delete"}),
        (("topics", "describe", ""), {"trucks", "depots"}),
        (("topics", "describe", "trucks", "--bo"), {"--bootstrap"}),
        (("groups", "describe", ""), {"readers", "writers"}),
        (("groups", "reset", "readers", "--topic", ""), {"trucks", "depots"}),
        (("groups", "list", "--state", "S"), {"Stable"}),
        (("transactions", "describe", ""), {"depot-1", "depot-2"}),
        (("transactions", "abort", ""), {"trucks", "depots"}),
        (("produce", "trucks", "--compression", "z"), {"zstd"}),
        (("consume", "--isolation", "read_c"), {"read_committed"}),
        (("configs", "describe", "b"), {"broker"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
        (("",), {"serve", "topics", "produce", "consume", "configs", "cluster", "log"}),
    ],
)
def test_bash_completes(typed: tuple[str, ...], expected: set[str], tmp_path: Path) -> None:
    script = saved(bash_script, tmp_path)
    assert expected <= set(completions_of("bash", BASH_HARNESS, script, typed).split())


def test_bash_completes_files(tmp_path: Path) -> None:
    script = saved(bash_script, tmp_path)
    offered = completions_of("bash", BASH_HARNESS, script, ("log", "dump", f"{tmp_path}/com"))
    assert offered.split() == [str(tmp_path / "completion")]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("topics", "de"), {"describe:Show", "delete:Delete"}),
        (("topics", "describe", ""), {"trucks", "depots"}),
        (("groups", "lag", ""), {"readers", "writers"}),
        (("transactions", "describe", ""), {"depot-1", "depot-2"}),
        (("produce", "trucks", "--compression", "z"), {"zstd"}),
        (("log", "dump", ""), {"files"}),
    ],
)
def test_zsh_completes(typed: tuple[str, ...], expected: set[str], tmp_path: Path) -> None:
    script = saved(zsh_script, tmp_path)
    assert expected <= set(completions_of("zsh", ZSH_HARNESS, script, typed).split())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("topics", "de"), {"describe", "delete"}),
        (("topics", "describe", ""), {"trucks", "depots"}),
        (("transactions", "describe", ""), {"depot-1", "depot-2"}),
        (("topics", "describe", "trucks", "--bo"), {"--bootstrap"}),
        (("produce", "trucks", "--compression", "z"), {"zstd"}),
    ],
)
def test_fish_completes(typed: tuple[str, ...], expected: set[str], tmp_path: Path) -> None:
    script = saved(fish_script, tmp_path)
    command = [find_program("fish"), "-c", FISH_HARNESS, str(script), "pykbroker", *typed]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert expected <= {line.partition("\t")[0] for line in done.stdout.splitlines()}


def test_all_options_are_in_all_scripts() -> None:
    tree = command_tree()
    for script in SCRIPTS.values():
        text = script(tree)
        for command in tree.walk():
            for option in command.options:
                assert option.names[-1].lstrip("-") in text


def saved(script: Callable[..., str], directory: Path) -> Path:
    path = directory / "completion"
    path.write_text(script(command_tree()))
    return path


def completions_of(shell: str, harness: str, script: Path, typed: tuple[str, ...]) -> str:
    command = [find_program(shell), "-c", harness, shell, str(script), "pykbroker", *typed]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout
