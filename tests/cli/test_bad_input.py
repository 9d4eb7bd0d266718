"""Whatever is typed: one line on stderr and an exit code, no traceback."""

from collections.abc import Iterator

import pytest

from pykbroker import Broker
from pykbroker.cli.command_line import read_command_line
from pykbroker.cli.main import main

NO_TEXT = "x\udcff"
"""What the byte ff, which is no UTF-8, looks like in `sys.argv`."""
NO_NUMBERS = ("", "nan", "inf", "0x10", NO_TEXT, "9" * 25, "-" + "9" * 25, "9" * 5000)

TAKES_A_NUMBER = (
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


@pytest.mark.parametrize("command", TAKES_A_NUMBER)
def test_what_is_no_number_or_none_that_fits_is_refused_where_it_is_read(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in NO_NUMBERS:
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
def test_a_number_beyond_its_bounds_is_refused_where_it_is_read(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="2"):
        read_command_line(arguments)


def test_only_what_must_be_there_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
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
        (("topics", "create", NO_TEXT), 2),
        (("topics", "create", "a", "--set", f"{NO_TEXT}=1"), 2),
        (("topics", "describe", NO_TEXT), 2),
        (("produce", NO_TEXT, "v"), 2),
        (("produce", "trucks", "v", "--header", f"{NO_TEXT}=1"), 2),
        (("produce", "trucks", "v", "--key-separator", ""), 2),
        (("consume", NO_TEXT), 2),
        (("consume", "trucks", "--group", NO_TEXT), 2),
        (("consume", "trucks", "--format", "{offset:>999999999999}"), 2),
        (("consume", "trucks", "--format", "{offset:>99999}"), 2),
        (("consume", "trucks", "--format", "{key:{value}}"), 2),
        (("consume", "trucks", "--format", "{offset:c}"), 2),
        (("groups", "describe", NO_TEXT), 2),
        (("groups", "remove-member", "g", "--member", NO_TEXT), 2),
        (("transactions", "list", "--matching", "("), 1),
        (("transactions", "describe", NO_TEXT), 2),
        (("configs", "describe", "broker", "9" * 5000), 2),
        (("configs", "alter", "topic", "trucks", "--set", f"a={NO_TEXT}"), 2),
    ],
)
def test_a_broker_is_not_asked_nonsense(
    kafka: Broker,
    arguments: tuple[str, ...],
    exit_code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*arguments, "--bootstrap", kafka.bootstrap]) == exit_code
    assert capsys.readouterr().err.count("\n") == 1


def test_bytes_that_are_no_text_are_written_as_they_were_typed(
    kafka: Broker, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = ("--key", NO_TEXT, "--header", f"a={NO_TEXT}", "--bootstrap", kafka.bootstrap)
    assert main(["produce", "trucks", NO_TEXT, *words]) == 0
    looks = ("--keys", "--headers", "--separator", NO_TEXT, "--from", "-1")
    capfdbinary.readouterr()
    assert main(["consume", "trucks", *looks, "--bootstrap", kafka.bootstrap]) == 0
    assert capfdbinary.readouterr().out.endswith(b"x\xffx\xffx\xffx\xff\n")


def test_so_long_ago_that_there_was_no_kafka_is_the_beginning(
    kafka: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    reset = ("groups", "reset", "g", "--topic", "trucks", "--back", "30000d")
    assert main([*reset, "--bootstrap", kafka.bootstrap, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[3] == "0"
