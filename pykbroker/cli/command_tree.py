"""The command line as values: commands, options, and the kind of each argument."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pykbroker.cli.command_line import build_parser

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(Enum):
    """The kind of values that a shell completes."""

    FILE = "file"
    DIRECTORY = "directory"
    TOPIC = "topic"
    GROUP = "group"
    TRANSACTION = "transaction"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...] = ()
    kind: Kind = Kind.ANYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command and its subcommands."""

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    choices: tuple[str, ...]
    kind: Kind
    subcommands: tuple[Command, ...]

    def walk(self) -> Iterator[Command]:
        yield self
        for subcommand in self.subcommands:
            yield from subcommand.walk()


def command_tree() -> Command:
    """Returns the root of all commands."""
    return command_of(build_parser(), (), "")


def command_of(parser: argparse.ArgumentParser, path: tuple[str, ...], text: str) -> Command:
    arguments = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001  # argparse has no public access
    positionals = [it for it in arguments if not isinstance(it, argparse._SubParsersAction)]  # noqa: SLF001  # likewise
    return Command(
        path=path,
        help=text,
        options=tuple(option_of(it) for it in parser._actions if it.option_strings),  # noqa: SLF001  # likewise
        choices=tuple(str(choice) for it in positionals[:1] for choice in it.choices or ()),
        kind=kind_of(positionals[0]) if positionals else Kind.ANYTHING,
        subcommands=tuple(subcommands_of(parser, path)),
    )


def subcommands_of(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[Command]:
    for action in parser._actions:  # noqa: SLF001  # likewise
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # likewise
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001  # likewise
            for name, command in action.choices.items():
                yield command_of(command, (*path, name), texts[name])


def option_of(action: argparse.Action) -> Option:
    return Option(
        names=tuple(action.option_strings),
        help=(action.help or "").partition(" (default")[0],
        takes_value=action.nargs != 0,
        choices=tuple(map(str, action.choices or ())),
        kind=kind_of(action),
    )


def kind_of(action: argparse.Action) -> Kind:
    match action.metavar:
        case "FILE":
            return Kind.FILE
        case "DIR":
            return Kind.DIRECTORY
        case "TOPIC" | "TOPIC[:PARTITION,...]" | "TOPIC:PARTITION":
            return Kind.TOPIC
        case "GROUP":
            return Kind.GROUP
        case "TRANSACTIONAL_ID":
            return Kind.TRANSACTION
        case _:
            return Kind.ANYTHING
