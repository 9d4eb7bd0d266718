"""Invalid arguments are reported in one line on stderr, without a traceback."""

from collections.abc import Iterator

import pytest

from pykbroker import Broker
from pykbroker.cli.command_line import read_command_line
from pykbroker.cli.main import main

UNDECODABLE = "x\udcff"
"""An argument with the byte ff, which is not UTF-8, as `sys.argv` contains it."""
INVALID_NUMBERS = ("", "nan", "inf", "0x10", UNDECODABLE, "9" * 25, "-" + "9" * 25, "9" * 5000)

COMMANDS_WITH_A_NUMBER = (
    "topics create t --partitions=N",
    "topics create t --replicas=N",
    "topics alter t --partitions=N",
    "topics list --timeout=N",
    "produce t --partition=N",
    "produce t --timestamp=@N",
    "produce t --batch-bytes=N",
    "consume t --partition=N",
    "consume t --from=@N",
    "consume t --from=-N",
    "consume t --max=N",
    "groups reset g --topic=t:N --to=end",
    "groups reset g --topic=t --shift=N",
    "groups reset g --topic=t --back=Nd",
    "groups delete-offsets g --topic=t:N",
    "groups lag --interval=N",
    "transactions list --producer=N",
    "transactions list --longer-than=Nd",
    "transactions abort t:0 --start-offset=N",
    "transactions abort t:N --start-offset=0",
    "transactions describe-producers t:N",
    "health --node-id=N",
    "health --timeout=N",
    "serve --topic=t:N",
    "serve --topic=t:1:N",
    "serve --node-id=N",
    "serve --listen=127.0.0.1:N",
    "control clock advance Nd",
    "control faults wait N",
    "control wait-for t --count=N",
    "control reset --topic=t:N",
    "control state --control=127.0.0.1:N",
    "pipeline replay d t --to=u --since=@N",
    "pipeline status f --timeout=N",
)


@pytest.mark.parametrize("command", COMMANDS_WITH_A_NUMBER)
def test_invalid_numbers_are_usage_errors(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for number in INVALID_NUMBERS:
        arguments = [word.replace("N", number) for word in command.split()]
        with pytest.raises(SystemExit) as ended:
            read_command_line(arguments)
        assert ended.value.code == 2, number
        assert capsys.readouterr().err.count("\n") == 1, number


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "create", "t", "--partitions", "99999999999"),
        ("topics", "create", "t", "--replicas", "99999"),
        ("topics", "list", "--timeout", "-1"),
        ("consume", "t", "--from", "@-1"),
        ("consume", "t", "--from", "1969-12-31T23:59Z"),
        ("consume", "t", "--from", "0001-01-01"),
    ],
)
def test_numbers_out_of_range_are_usage_errors(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="2"):
        read_command_line(arguments)


def test_only_required_arguments_are_reported_as_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        read_command_line(["produce"])
    assert "the following arguments are required: TOPIC (" in capsys.readouterr().err


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with Broker({"trucks": 1}) as broker:
        broker.produce("trucks", ["at the depot"])
        yield broker


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("topics", "create", UNDECODABLE), 2),
        (("topics", "create", "a", "--set", f"{UNDECODABLE}=1"), 2),
        (("topics", "describe", UNDECODABLE), 2),
        (("produce", UNDECODABLE, "v"), 2),
        (("produce", "trucks", "v", "--header", f"{UNDECODABLE}=1"), 2),
        (("produce", "trucks", "v", "--key-separator", ""), 2),
        (("consume", UNDECODABLE), 2),
        (("consume", "trucks", "--group", UNDECODABLE), 2),
        (("consume", "trucks", "--format", "{offset:>999999999999}"), 2),
        (("consume", "trucks", "--format", "{offset:>99999}"), 2),
        (("consume", "trucks", "--format", "{key:{value}}"), 2),
        (("consume", "trucks", "--format", "{offset:c}"), 2),
        (("groups", "describe", UNDECODABLE), 2),
        (("groups", "remove-member", "g", "--member", UNDECODABLE), 2),
        (("transactions", "list", "--matching", "("), 1),
        (("transactions", "describe", UNDECODABLE), 2),
        (("configs", "describe", "broker", "9" * 5000), 2),
        (("configs", "alter", "topic", "trucks", "--set", f"a={UNDECODABLE}"), 2),
    ],
)
def test_invalid_values_are_rejected_in_one_line(
    kafka: Broker,
    arguments: tuple[str, ...],
    exit_code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*arguments, "--bootstrap", kafka.bootstrap]) == exit_code
    assert capsys.readouterr().err.count("\n") == 1


def test_undecodable_arguments_are_written_unchanged(
    kafka: Broker, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = ("--key", UNDECODABLE, "--header", f"a={UNDECODABLE}", "--bootstrap", kafka.bootstrap)
    assert main(["produce", "trucks", UNDECODABLE, *words]) == 0
    looks = ("--keys", "--headers", "--separator", UNDECODABLE, "--from", "-1")
    capfdbinary.readouterr()
    assert main(["consume", "trucks", *looks, "--bootstrap", kafka.bootstrap]) == 0
    assert capfdbinary.readouterr().out.endswith(b"x\xffx\xffx\xffx\xff\n")


def test_a_duration_before_1970_is_the_earliest_offset(
    kafka: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    reset = ("groups", "reset", "g", "--topic", "trucks", "--back", "30000d")
    assert main([*reset, "--bootstrap", kafka.bootstrap, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[3] == "0"
