"""An argument parser in this command's manner: help with examples, mistakes in one line."""

from __future__ import annotations

import argparse
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from pykbroker.cli.command_line.values import bootstrap_default, seconds
from pykbroker.cli.failure import EXIT_CANNOT_START

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS_DEFAULT = 80
MARGIN_COLUMNS = 2
DESCRIPTION = """\
A Kafka broker, and the tools to talk to one.

Without a command, or with options alone, `pykbroker` is `pykbroker serve`."""

FIRST_STEPS = """\
first steps:
  pykbroker --topic trucks:10
  pykbroker produce trucks --key truck-17 'at the depot'
  pykbroker consume trucks --keys"""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Looks the terminal up without `shutil`; each declared option asks for a formatter."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_columns() - MARGIN_COLUMNS)


@cache
def terminal_columns() -> int:
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or COLUMNS_DEFAULT  # type: ignore[union-attr]  # None raises, too
    except (AttributeError, ValueError, OSError):
        return COLUMNS_DEFAULT


class CommandParser(argparse.ArgumentParser):
    """Says what is wrong in one line, and lets options stand between the other arguments."""

    _is_intermixing = False

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self._is_intermixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_intermixing = True
        try:
            options, strangers = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixing = False
        if strangers:
            # Said here, where the command is known, and not by the root.
            self.error(f"unrecognized arguments: {' '.join(strangers)}")
        return options, []

    def error(self, message: str) -> NoReturn:
        words = self.prog.removeprefix("pykbroker ")
        self.exit(EXIT_CANNOT_START, f"{words}: {message} (see {self.prog} --help)\n")


class Version(argparse.Action):
    """Prints the version; imports it only if --version is given."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from pykbroker.version import __version__  # noqa: PLC0415  # a start does not need it

        print(f"pykbroker {__version__}")
        parser.exit()


class Commands:
    """A place where commands are declared."""

    def __init__(self, parser: CommandParser, title: str) -> None:
        self._subparsers = parser.add_subparsers(
            title=title,
            metavar="COMMAND",
            required=True,
            parser_class=CommandParser,
            prog=parser.prog,  # else it is composed, by a formatter that nobody else needs
        )

    def add(
        self,
        name: str,
        *,
        run: str,
        brief: str,
        about: str = "",
        subject: Sequence[str] = (),
        examples: Sequence[str],
    ) -> CommandParser:
        """One command; `run` is `module:function` below `pykbroker.cli`.

        `subject` names the arguments that a complaint repeats, such as the topic.
        """
        command = self._add_parser(name, brief, about or brief, epilog_of(examples))
        words = command.prog.removeprefix("pykbroker ")
        command.set_defaults(run=run, words=words, subject=subject)
        return command

    def add_group(self, name: str, *, brief: str) -> Commands:
        """A word with commands of its own behind it."""
        return Commands(self._add_parser(name, brief, brief, None), "commands")

    def _add_parser(self, name: str, brief: str, about: str, epilog: str | None) -> CommandParser:
        return self._subparsers.add_parser(
            name,
            help=brief,
            description=about[0].upper() + about[1:].rstrip(".") + ".",
            epilog=epilog,
            formatter_class=Formatter,
            allow_abbrev=False,
        )


def new_root() -> tuple[CommandParser, Commands]:
    root = CommandParser(
        prog="pykbroker",
        description=DESCRIPTION,
        epilog=FIRST_STEPS,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    root.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    return root, Commands(root, "commands")


def epilog_of(examples: Sequence[str]) -> str:
    title = "example" if len(examples) == 1 else "examples"
    return "\n  ".join((f"{title}:", *examples))


def add_connection_options(command: CommandParser, *, json: bool = True) -> None:
    """What every command has that asks a broker."""
    group = command.add_argument_group("the broker")
    group.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        default=bootstrap_default(),
        help="a broker of the cluster, or several with commas between "
        "(default: $PYKBROKER_BOOTSTRAP or 127.0.0.1:9092)",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=30.0,
        dest="timeout_s",
        help="how long to wait for any answer (default: 30)",
    )
    if json:
        command.add_argument("--json", action="store_true", help="print JSON for programs")
