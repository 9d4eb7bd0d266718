"""Generates completion scripts for bash, zsh and fish.

The scripts complete names of topics, groups and transactional ids with requests to the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_tree import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker.cli.command_tree import Option, Word

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


def bash_script(root: Word) -> str:
    return BASH.format(
        paths="|".join(quoted(path) for path in paths_of(root)),
        words="\n".join(map(bash_words, root.walk())),
        values="\n".join(line for word in root.walk() for line in bash_values(word)),
        **NAMES,
    )


def bash_words(word: Word) -> str:
    offered = [*(it.path[-1] for it in word.words), *word.choices, *option_names(word)]
    return f"        {quoted(joined(word))}) words={quoted(' '.join(offered))} kind={kind(word)} ;;"


def bash_values(word: Word) -> Iterator[str]:
    for option in valued(word):
        what = f"words={quoted(' '.join(option.choices))} kind={kind(option)} offered=1"
        yield f"        {patterns(word, option)}) {what} ;;"


def zsh_script(root: Word) -> str:
    return ZSH.format(
        paths="|".join(quoted(path) for path in paths_of(root)),
        words="\n".join(map(zsh_words, root.walk())),
        values="\n".join(line for word in root.walk() for line in zsh_values(word)),
        **NAMES,
    )


def zsh_words(word: Word) -> str:
    commands = [described(it.path[-1], it.text) for it in word.words]
    commands += map(quoted, word.choices)
    options = [described(name, it.text) for it in word.options for name in it.names]
    return (
        f"        {quoted(joined(word))})\n"
        f"            subcommands=({' '.join(commands)})\n"
        f"            flags=({' '.join(options)})\n"
        f"            kind={kind(word)} ;;"
    )


def zsh_values(word: Word) -> Iterator[str]:
    for option in valued(word):
        choices = " ".join(map(quoted, option.choices))
        yield (
            f"        {patterns(word, option)}) "
            f"subcommands=({choices}) flags=() kind={kind(option)} ;;"
        )


def fish_script(root: Word) -> str:
    lines = [line for word in root.walk() for line in fish_lines(word)]
    paths = " ".join(quoted(path) for path in paths_of(root))
    return FISH.format(paths=paths, **NAMES, lines="\n".join(lines))


def fish_lines(word: Word) -> Iterator[str]:
    here = f"complete -c pykbroker -n {quoted(f'__pykbroker_at {quoted(joined(word))}')}"
    for command in word.words:
        yield f"{here} -a {quoted(command.path[-1])} -d {quoted(command.text)}"
    for choice in word.choices:
        yield f"{here} -a {quoted(choice)}"
    yield from (f"{here} {values}" for values in fish_values(word.kind))
    for option in word.options:
        yield f"{here} {fish_option(option)} -d {quoted(option.text)}"


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


def paths_of(root: Word) -> Iterable[str]:
    return (joined(word) for word in root.walk() if word.path)


def joined(word: Word) -> str:
    """Returns the words of the command, each after a blank, as the scripts collect them."""
    return "".join(f" {part}" for part in word.path)


def option_names(word: Word) -> Iterable[str]:
    return (name for option in word.options for name in option.names)


def valued(word: Word) -> Iterable[Option]:
    return (option for option in word.options if option.takes_value)


def patterns(word: Word, option: Option) -> str:
    return "|".join(quoted(f"{joined(word)} {name}") for name in option.names)


def kind(of: Word | Option) -> str:
    return "" if of.kind is Kind.ANYTHING else of.kind.value


def described(name: str, text: str) -> str:
    return quoted(f"{name.replace(':', chr(92) + ':')}:{text}")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
