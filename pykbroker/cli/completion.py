"""The command `completion`: prints completion scripts for bash, zsh and fish.

The scripts complete names of topics, groups and transactional ids with requests to the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_tree import Kind, command_tree

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from pykbroker.cli.command_tree import Command, Option

NAMES = {
    "topics": "pykbroker topics list --names --timeout 2 2>/dev/null",
    "groups": "pykbroker groups list --names --timeout 2 2>/dev/null",
    "transactions": "pykbroker transactions list --names --timeout 2 2>/dev/null",
}

BASH = """\
# pykbroker completion for bash: source <(pykbroker completion bash)
_pykbroker() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
    local typed= word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$typed $word" in
            {paths}) typed="$typed $word" ;;
        esac
    done
    local words= offered= kind=
    case "$typed" in
{words}
    esac
    case "$typed $previous" in
{values}
    esac
    if [[ -z $offered && $current == -* ]]; then
        offered=1 kind=
    fi
    case "$kind" in
        topic) words="$words $({topics})" ;;
        group) words="$words $({groups})" ;;
        transaction) words="$words $({transactions})" ;;
        file) words= ; compopt -o filenames 2>/dev/null
              COMPREPLY=($(compgen -f -- "$current")) ; return ;;
        directory) words= ; compopt -o filenames 2>/dev/null
              COMPREPLY=($(compgen -d -- "$current")) ; return ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _pykbroker pykbroker
"""

ZSH = """\
#compdef pykbroker
# pykbroker completion for zsh: save as _pykbroker in a directory of $fpath, or source it
_pykbroker_topics() {{
    local -a names
    names=(${{(f)"$({topics})"}})
    _describe 'topic' names
}}
_pykbroker_groups() {{
    local -a names
    names=(${{(f)"$({groups})"}})
    _describe 'group' names
}}
_pykbroker_transactions() {{
    local -a names
    names=(${{(f)"$({transactions})"}})
    _describe 'transactional id' names
}}
_pykbroker() {{
    local typed= word
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$typed $word" in
            {paths}) typed="$typed $word" ;;
        esac
    done
    local -a subcommands flags
    local kind= previous=$words[CURRENT-1]
    case "$typed" in
{words}
    esac
    case "$typed $previous" in
{values}
    esac
    if [[ $PREFIX == -* ]]; then
        _describe -o 'option' flags
        return
    fi
    (( $#subcommands )) && _describe 'command' subcommands
    case "$kind" in
        topic) _pykbroker_topics ;;
        group) _pykbroker_groups ;;
        transaction) _pykbroker_transactions ;;
        file) _files ;;
        directory) _files -/ ;;
    esac
}}
if [[ $funcstack[1] == _pykbroker ]]; then
    _pykbroker "$@"
else
    compdef _pykbroker pykbroker
fi
"""

FISH = """\
# pykbroker completion for fish: pykbroker completion fish | source
function __pykbroker_at --description 'true if exactly these words were typed so far'
    set -l typed
    for word in (commandline -opc)[2..-1]
        contains -- "$typed $word" {paths}; and set typed "$typed $word"
    end
    test "$typed" = "$argv[1]"
end
function __pykbroker_topics
    {topics}
end
function __pykbroker_groups
    {groups}
end
function __pykbroker_transactions
    {transactions}
end
complete -c pykbroker -f
{lines}
"""


def completion(options: Namespace) -> int:
    print(SCRIPTS[options.shell](command_tree()), end="")
    return 0


def bash_script(root: Command) -> str:
    return BASH.format(
        paths="|".join(quoted(path) for path in paths_of(root)),
        words="\n".join(map(bash_words, root.walk())),
        values="\n".join(line for command in root.walk() for line in bash_values(command)),
        **NAMES,
    )


def bash_words(command: Command) -> str:
    offered = [
        *(it.path[-1] for it in command.subcommands),
        *command.choices,
        *option_names(command),
    ]
    kind = shell_kind(command)
    return f"        {quoted(joined(command))}) words={quoted(' '.join(offered))} kind={kind} ;;"


def bash_values(command: Command) -> Iterator[str]:
    for option in options_with_value(command):
        what = f"words={quoted(' '.join(option.choices))} kind={shell_kind(option)} offered=1"
        yield f"        {patterns(command, option)}) {what} ;;"


def zsh_script(root: Command) -> str:
    return ZSH.format(
        paths="|".join(quoted(path) for path in paths_of(root)),
        words="\n".join(map(zsh_words, root.walk())),
        values="\n".join(line for command in root.walk() for line in zsh_values(command)),
        **NAMES,
    )


def zsh_words(command: Command) -> str:
    commands = [described(it.path[-1], it.help) for it in command.subcommands]
    commands += map(quoted, command.choices)
    options = [described(name, it.help) for it in command.options for name in it.names]
    return (
        f"        {quoted(joined(command))})\n"
        f"            subcommands=({' '.join(commands)})\n"
        f"            flags=({' '.join(options)})\n"
        f"            kind={shell_kind(command)} ;;"
    )


def zsh_values(command: Command) -> Iterator[str]:
    for option in options_with_value(command):
        choices = " ".join(map(quoted, option.choices))
        yield (
            f"        {patterns(command, option)}) "
            f"subcommands=({choices}) flags=() kind={shell_kind(option)} ;;"
        )


def fish_script(root: Command) -> str:
    lines = [line for command in root.walk() for line in fish_lines(command)]
    paths = " ".join(quoted(path) for path in paths_of(root))
    return FISH.format(paths=paths, **NAMES, lines="\n".join(lines))


def fish_lines(command: Command) -> Iterator[str]:
    here = f"complete -c pykbroker -n {quoted(f'__pykbroker_at {quoted(joined(command))}')}"
    for subcommand in command.subcommands:
        yield f"{here} -a {quoted(subcommand.path[-1])} -d {quoted(subcommand.help)}"
    for choice in command.choices:
        yield f"{here} -a {quoted(choice)}"
    yield from (f"{here} {values}" for values in fish_values(command.kind))
    for option in command.options:
        yield f"{here} {fish_option(option)} -d {quoted(option.help)}"


def fish_values(of: Kind) -> Iterator[str]:
    match of:
        case Kind.TOPIC:
            yield "-a '(__pykbroker_topics)'"
        case Kind.GROUP:
            yield "-a '(__pykbroker_groups)'"
        case Kind.TRANSACTION:
            yield "-a '(__pykbroker_transactions)'"
        case Kind.FILE:
            yield "-F"
        case Kind.DIRECTORY:
            yield "-a '(__fish_complete_directories)'"


def fish_option(option: Option) -> str:
    names = [f"-l {it[2:]}" if it.startswith("--") else f"-s {it[1:]}" for it in option.names]
    if option.takes_value:
        names.append("-r")
        if option.choices:
            names.append(f"-a {quoted(' '.join(option.choices))}")
        names += fish_values(option.kind)
    return " ".join(names)


def paths_of(root: Command) -> Iterable[str]:
    return (joined(command) for command in root.walk() if command.path)


def joined(command: Command) -> str:
    """Returns the words of the command, each after a blank, as the scripts collect them."""
    return "".join(f" {part}" for part in command.path)


def option_names(command: Command) -> Iterable[str]:
    return (name for option in command.options for name in option.names)


def options_with_value(command: Command) -> Iterable[Option]:
    return (option for option in command.options if option.takes_value)


def patterns(command: Command, option: Option) -> str:
    return "|".join(quoted(f"{joined(command)} {name}") for name in option.names)


def shell_kind(of: Command | Option) -> str:
    return "" if of.kind is Kind.ANYTHING else of.kind.value


def described(name: str, text: str) -> str:
    return quoted(f"{name.replace(':', chr(92) + ':')}:{text}")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
