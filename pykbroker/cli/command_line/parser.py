"""The argument parser of `pykbroker`: help with examples, one-line usage errors."""

from __future__ import annotations

import argparse
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from pykbroker.cli.command_line.values import bootstrap_default, seconds
from pykbroker.cli.failure import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

COLUMNS_DEFAULT = 80
MARGIN_COLUMNS = 2
HELP_COLUMN_MAX = 28
USAGE_INDENT = " " * 11
DESCRIPTION = """\
A Kafka broker and command-line tools for Kafka clusters.

Without a command, `pykbroker [OPTIONS]` runs `pykbroker serve [OPTIONS]`."""

FIRST_STEPS = """\
Getting started:
  pykbroker --topic trucks:10
  pykbroker produce trucks --key truck-17 'at the depot'
  pykbroker consume trucks --keys"""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Formats help: the usage line shows only required options, commands are listed flat.

    Reads the terminal width without importing `shutil`, because argparse creates a formatter for
    each declared option.
    """

    def __init__(self, prog: str) -> None:
        width = terminal_columns() - MARGIN_COLUMNS
        super().__init__(prog, max_help_position=HELP_COLUMN_MAX, width=width)

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        usage = usage or "\n".join(self._usage_lines(list(actions), groups))
        super().add_usage(usage, (), (), prefix or "Usage: ")

    def _usage_lines(
        self,
        actions: list[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
    ) -> Iterator[str]:
        required = [group._group_actions for group in groups if group.required]  # noqa: SLF001  # argparse has no public access
        required += [[it] for it in actions if it.required and it.option_strings]
        line = f"{self._prog} [OPTIONS]"
        for part in (
            *(alternatives(list(map(self._option_usage, group))) for group in required),
            *(self._format_args(it, it.dest) for it in actions if not it.option_strings),
        ):
            if len("Usage: ") + len(line) + 1 + len(part) > self._width:
                yield line
                line = USAGE_INDENT + part
            else:
                line = f"{line} {part}"
        yield line

    def _option_usage(self, action: argparse.Action) -> str:
        return f"{action.option_strings[-1]} {self._format_args(action, '')}".rstrip()

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # likewise
            return "".join(map(super()._format_action, action._get_subactions()))  # noqa: SLF001  # likewise
        return super()._format_action(action)


def alternatives(usages: Sequence[str]) -> str:
    return usages[0] if len(usages) == 1 else f"({' | '.join(usages)})"


@cache
def terminal_columns() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or COLUMNS_DEFAULT  # type: ignore[union-attr]  # None raises, too
    except (AttributeError, ValueError, OSError):
        return COLUMNS_DEFAULT


class CommandParser(argparse.ArgumentParser):
    """Reports usage errors in one line and accepts options between positional arguments."""

    _is_intermixing = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, formatter_class=Formatter, allow_abbrev=False, add_help=False)
        self._positionals.title = "Arguments"
        self._optionals.title = "Options"
        self.add_argument("-h", "--help", action="help", help="Show this help and exit")

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self._is_intermixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_intermixing = True
        try:
            options, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixing = False
        if unknown:
            # Reported by the command's parser: the root parser would not name the command.
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, []

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.NOT_STARTED, f"{name_of(self)}: {message} (see {self.prog} --help)\n")


def name_of(command: argparse.ArgumentParser) -> str:
    return command.prog.removeprefix("pykbroker ")


class Version(argparse.Action):
    """Prints the version; imports it only if --version is given."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from pykbroker.version import __version__  # noqa: PLC0415  # a start does not need it

        print(f"pykbroker {__version__}")
        parser.exit()


class Commands:
    """A group of commands: the top level, or a command with subcommands."""

    def __init__(self, parser: CommandParser, title: str) -> None:
        self._subparsers = parser.add_subparsers(
            title=title,
            metavar="COMMAND",
            required=True,
            parser_class=CommandParser,
            prog=parser.prog,  # otherwise argparse creates a formatter to compose it
        )

    def add(
        self,
        name: str,
        *,
        run: str,
        brief: str,
        about: str = "",
        subject: Sequence[str] = (),
        requires: Sequence[str] = (),
        examples: Sequence[str],
    ) -> CommandParser:
        """Adds a command; `run` is `module:function` below `pykbroker.cli`.

        `subject` names the arguments that error messages repeat, such as the topic. `requires`
        names packages of the extra `spark`; without them, the command fails before its import.
        """
        command = self._add_parser(name, brief, about or brief, epilog_of(examples))
        command.set_defaults(run=run, command=name_of(command), subject=subject, requires=requires)
        return command

    def add_group(self, name: str, *, brief: str) -> Commands:
        """Adds a command with subcommands."""
        return Commands(self._add_parser(name, brief, brief, None), "Commands")

    def _add_parser(self, name: str, brief: str, about: str, epilog: str | None) -> CommandParser:
        return self._subparsers.add_parser(
            name,
            help=brief,
            description=about.rstrip(".") + ".",
            epilog=epilog,
        )


def new_root() -> tuple[CommandParser, Commands]:
    root = CommandParser(prog="pykbroker", description=DESCRIPTION, epilog=FIRST_STEPS)
    root.add_argument("--version", action=Version, nargs=0, help="Print the version and exit")
    return root, Commands(root, "Commands")


def epilog_of(examples: Sequence[str]) -> str:
    title = "Example" if len(examples) == 1 else "Examples"
    return "\n  ".join((f"{title}:", *examples))


def add_connection_options(command: CommandParser, *, json: bool = True) -> None:
    """Adds --bootstrap, --timeout and --json, which all commands for clusters share."""
    group = command.add_argument_group("Connection")
    add_bootstrap(group)
    add_timeout(group)
    if json:
        add_json(command)


def add_bootstrap(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        default=bootstrap_default(),
        help="Bootstrap brokers, separated by commas "
        "(default: $PYKBROKER_BOOTSTRAP or 127.0.0.1:9092)",
    )


def add_timeout(
    command: argparse._ActionsContainer,
    *,
    default: int = 30,
    text: str = "Request timeout in seconds",
) -> None:
    command.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=float(default),
        dest="timeout_seconds",
        help=f"{text} (default: {default})",
    )


def add_json(command: argparse._ActionsContainer) -> None:
    command.add_argument("--json", action="store_true", help="Print JSON")
