import io
import json
import logging
from collections.abc import Iterator

import pytest

from pykbroker.telemetry import LogFormat, configure_logging
from pykbroker.telemetry.logs import utc

CREATED = 1_795_010_891.123


@pytest.fixture(autouse=True)
def _restore_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _line(log_format: LogFormat, message: str, *args: object) -> str:
    stream = io.StringIO()
    configure_logging("info", log_format, stream=stream)
    logging.getLogger("pykbroker.test").warning(message, *args)
    return stream.getvalue()


def _lines_of_an_error(log_format: LogFormat) -> str:
    stream = io.StringIO()
    configure_logging("info", log_format, stream=stream)
    logging.getLogger("pykbroker.test").error("cannot write", exc_info=OSError("disk full"))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_795_010_891.5, "2026-11-18T14:08:11.500Z"),
        (1_795_010_891.9999, "2026-11-18T14:08:11.999Z"),
    ],
)
def test_times_are_utc_with_milliseconds(seconds: float, text: str) -> None:
    assert utc(seconds) == text


def test_a_text_line_has_time_level_and_message() -> None:
    line = _line(LogFormat.TEXT, "partition %s-%d went offline", "trucks", 3)
    time, level, message = line.rstrip("\n").split(" ", 2)
    assert time.endswith("Z")
    assert (level, message) == ("WARNING", "partition trucks-3 went offline")


def test_a_json_line_is_one_object() -> None:
    line = _line(LogFormat.JSON, "client %s\nleft", "café")
    fields = json.loads(line)
    assert fields.pop("time").endswith("Z")
    assert fields == {
        "level": "WARNING",
        "logger": "pykbroker.test",
        "message": "client café\nleft",
    }
    assert line.count("\n") == 1


@pytest.mark.parametrize("message", ["a\nb", "a\r\nb", "a\x1b[31mb", "a\u2028b"])
def test_control_characters_of_a_message_are_escaped(message: str) -> None:
    line = _line(LogFormat.TEXT, message)
    assert line.rstrip("\n").isprintable()


def test_a_traceback_follows_the_text_line() -> None:
    lines = _lines_of_an_error(LogFormat.TEXT).splitlines()
    assert lines[0].endswith("ERROR cannot write")
    assert lines[-1] == "OSError: disk full"


def test_a_traceback_is_a_field_of_the_json_object() -> None:
    line = _lines_of_an_error(LogFormat.JSON)
    assert json.loads(line)["traceback"].endswith("OSError: disk full")
    assert line.count("\n") == 1


def test_lines_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    configure_logging("error", stream=stream)
    logging.getLogger("pykbroker.test").warning("unheard")
    assert stream.getvalue() == ""


def test_a_second_configuration_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging(stream=first)
    configure_logging(stream=second)
    logging.getLogger("pykbroker.test").warning("once")
    assert (first.getvalue(), second.getvalue().count("\n")) == ("", 1)


def test_repeated_lines_are_suppressed_and_counted() -> None:
    now = 0.0
    stream = io.StringIO()
    configure_logging(stream=stream, monotonic=lambda: now)
    logger = logging.getLogger("pykbroker.test")
    for partition in range(100):
        logger.warning("partition %d went offline", partition)
    now = 61.0
    logger.warning("partition %d went offline", 100)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 31
    assert lines[-1].endswith("partition 100 went offline (70 similar lines suppressed)")


def test_json_contains_the_number_of_suppressed_lines() -> None:
    now = 0.0
    stream = io.StringIO()
    configure_logging(log_format=LogFormat.JSON, stream=stream, monotonic=lambda: now)
    logger = logging.getLogger("pykbroker.test")
    for _ in range(31):
        logger.warning("again")
    now = 61.0
    logger.warning("again")
    assert json.loads(stream.getvalue().splitlines()[-1])["held_back"] == 1
