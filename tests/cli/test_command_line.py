"""Parsing of command lines, usage errors, help."""

import argparse
import importlib
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykbroker import __version__
from pykbroker.address import Address
from pykbroker.cli.command_line import DECLARED_IN, build_parser, parser, read_command_line, values
from pykbroker.cli.command_line.values import Anchor, OffsetSpec, TopicChoice, TopicSpec
from pykbroker.cli.command_tree import Command, command_of, command_tree

ROOT = Path(__file__).parents[2]
TREE = list(command_tree().walk())
COMMANDS = [it for it in TREE if it.path and not it.subcommands]


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (values.address, "127.0.0.1:9092", Address("127.0.0.1", 9092)),
        (values.address, "[::1]:0", Address("::1", 0)),
        (values.assignment, "a=b=c", ("a", "b=c")),
        (values.assignment, "a=", ("a", "")),
        (values.topic_spec, "trucks", TopicSpec("trucks", -1, -1)),
        (values.topic_spec, "trucks:10", TopicSpec("trucks", 10, -1)),
        (values.topic_spec, "trucks:10:3", TopicSpec("trucks", 10, 3)),
        (values.offset_spec, "beginning", OffsetSpec(Anchor.BEGINNING)),
        (values.offset_spec, "end", OffsetSpec(Anchor.END)),
        (values.offset_spec, "12", OffsetSpec(Anchor.OFFSET, 12)),
        (values.offset_spec, "-5", OffsetSpec(Anchor.END, 5)),
        (values.offset_spec, "@1700000000000", OffsetSpec(Anchor.TIMESTAMP, 1_700_000_000_000)),
        (
            values.offset_spec,
            "2023-11-14T22:13:20Z",
            OffsetSpec(Anchor.TIMESTAMP, 1_700_000_000_000),
        ),
        (
            values.offset_spec,
            "2023-11-14T23:13:20.5+01:00",
            OffsetSpec(Anchor.TIMESTAMP, 1_700_000_000_500),
        ),
        (values.separator, r"a\tb\\t", "a\tb\\t"),
        (values.offset_spec, "earliest", OffsetSpec(Anchor.BEGINNING)),
        (values.offset_spec, "latest", OffsetSpec(Anchor.END)),
        (values.topic_choice, "trucks", TopicChoice("trucks")),
        (values.topic_choice, "trucks:3,0", TopicChoice("trucks", (0, 3))),
        (values.duration_ms, "90s", 90_000),
        (values.duration_ms, "1d12h", 129_600_000),
        (values.duration_ms, "2h30m1.5s", 9_001_500),
        (values.duration_ms, "PT2H30M", 9_000_000),
        (values.duration_ms, "P1DT1M", 86_460_000),
        (values.shift, "-5", -5),
        (values.shift, "+5", 5),
        (values.seconds, "0.5", 0.5),
        (values.positive, "1", 1),
        (values.natural, "0", 0),
    ],
)
def test_a_valid_value_is_parsed(read: Callable[[str], Any], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (values.address, "9092"),
        (values.address, "host:port"),
        (values.address, "host:65536"),
        (values.address, "::1:9092"),
        (values.assignment, "retention.ms"),
        (values.assignment, "=1"),
        (values.topic_spec, ":3"),
        (values.topic_spec, "trucks:many"),
        (values.topic_spec, "trucks:1:2:3"),
        (values.offset_spec, "yesterday"),
        (values.timestamp_ms, "12"),
        (values.topic_choice, ":3"),
        (values.topic_choice, "trucks:"),
        (values.topic_choice, "trucks:1,-2"),
        (values.duration_ms, ""),
        (values.duration_ms, "0s"),
        (values.duration_ms, "12"),
        (values.duration_ms, "2m1h"),
        (values.duration_ms, "PT"),
        (values.shift, "1.5"),
        (values.seconds, "0"),
        (values.seconds, "nan"),
        (values.seconds, "soon"),
        (values.positive, "0"),
        (values.natural, "-1"),
    ],
)
def test_an_invalid_value_is_rejected(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read(text)


@pytest.mark.parametrize("arguments", [[], ["--ephemeral"], ["--listen", "127.0.0.1:0"]])
def test_the_default_command_is_serve(arguments: list[str]) -> None:
    assert read_command_line(arguments).command == "serve"


def test_options_can_stand_between_arguments() -> None:
    options = read_command_line(["produce", "trucks", "--key", "a", "one", "--acks", "1", "two"])
    assert (options.topic, options.values, options.acks) == ("trucks", ["one", "two"], "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topics", "create"], "topics create: the following arguments are required: TOPIC"),
        (["topics", "create", "a", "--partitions", "0"], "topics create: argument --partitions"),
        (["serve", "--listen", "9092"], "serve: argument --listen: '9092' is not HOST:PORT"),
        (["--listn"], "serve: unrecognized arguments: --listn"),
        (["serve", "--data", "d", "--ephemeral"], "serve: argument --ephemeral: not allowed with"),
        (["groups", "reset", "g", "--topic", "t"], "groups reset: one of the arguments --to --ba"),
        (["groups", "reset", "g", "--to", "end"], "groups reset: one of the arguments --topic --a"),
        (["nonsense"], "pykbroker: argument COMMAND: invalid choice: 'nonsense'"),
    ],
)
def test_a_usage_error_is_one_line_with_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_command_line(arguments)
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert error.startswith(message)
    assert error.count("\n") == 1


def help_of(command: Command, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        build_parser().parse_args([*command.path, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.path))
def test_examples_of_each_command_can_be_parsed(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = help_of(command, capsys).partition("\nExample")[2].splitlines()[1:]
    assert examples
    for example in examples:
        arguments = re.split(r"pykbroker |\)| [<>] ", example)[1]
        assert read_command_line(shlex.split(arguments)).command == " ".join(command.path)


@pytest.mark.parametrize("command", TREE, ids=lambda command: " ".join(command.path))
def test_help_is_at_most_80_columns_wide(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser, "terminal_columns", lambda: 80)
    assert [line for line in help_of(command, capsys).splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.path))
def test_all_commands_have_a_function(command: Command) -> None:
    module, _, function = defaults_of(command)["run"].partition(":")
    assert callable(getattr(importlib.import_module(f"pykbroker.cli.{module}"), function))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.path))
def test_all_options_have_help(command: Command) -> None:
    assert [option.names for option in command.options if not option.help] == []


def defaults_of(command: Command) -> dict[str, Any]:
    found: argparse.ArgumentParser = build_parser()
    for name in command.path:
        (commands,) = (it for it in found._actions if isinstance(it.choices, dict))
        assert isinstance(commands.choices, dict)
        found = commands.choices[name]
    return found._defaults


@pytest.mark.parametrize("module", sorted(set(DECLARED_IN.values())))
def test_each_module_declares_its_top_level_commands(module: str) -> None:
    declared = {it.path[0] for it in command_of(build_parser((module,)), (), "").walk() if it.path}
    assert declared == {name for name, home in DECLARED_IN.items() if home == module}


def test_the_version_option_prints_the_version_of_the_package(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_command_line(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pykbroker {__version__}\n"


def test_the_distribution_takes_its_version_from_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "pykbroker/version.py"


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("serve", "serve [OPTIONS]"),
        ("topics", "topics [OPTIONS] COMMAND ..."),
        ("produce", "produce [OPTIONS] TOPIC [VALUE ...]"),
        ("proxy", "proxy [OPTIONS] --record FILE --upstream HOST:PORT"),
        (
            "groups delete-offsets",
            "groups delete-offsets [OPTIONS] (--topic TOPIC[:PARTITION,...] | --all-topics) GROUP",
        ),
    ],
)
def test_usage_shows_only_required_options(
    command: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read_command_line([*command.split(), "--help"])
    shown = capsys.readouterr().out.partition("\n\n")[0]
    assert " ".join(shown.split()) == f"Usage: pykbroker {usage}"
