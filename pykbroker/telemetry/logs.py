"""The log on stderr: one line for each event, for people or as JSON."""

import logging
import sys
import time
from collections.abc import Callable
from enum import Enum
from typing import TextIO

from pykbroker.telemetry.repetition import Repetition

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


class LogFormat(Enum):
    TEXT = "text"
    JSON = "json"


def configure_logging(
    level: str = "info",
    log_format: LogFormat = LogFormat.TEXT,
    *,
    stream: TextIO | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Send what the process logs to stderr; called again, it replaces what it set up before."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(TextFormatter() if log_format is LogFormat.TEXT else JsonFormatter())
    handler.addFilter(RepetitionFilter(Repetition(monotonic=monotonic)))
    root = logging.getLogger()
    for former in root.handlers[:]:
        if any(isinstance(each, RepetitionFilter) for each in former.filters):
            root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(LEVELS[level])


class RepetitionFilter(logging.Filter):
    """Holds back lines that repeat too often; the next one let through says how many."""

    def __init__(self, repetition: Repetition) -> None:
        super().__init__()
        self._repetition = repetition

    def filter(self, record: logging.LogRecord) -> bool:
        # The message before its arguments: a thousand partitions with one trouble are one line.
        held_back = self._repetition.admit((record.name, record.levelno, record.msg))
        if held_back is None:
            return False
        record.held_back = held_back
        return True


class TextFormatter(logging.Formatter):
    """`2026-11-18T14:08:11.123Z WARNING the message`, a traceback on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{utc(record.created)} {record.levelname} {_single_line(record.getMessage())}"
        held_back = getattr(record, "held_back", 0)
        if held_back:
            line += f" ({held_back} more like it were held back)"
        trace = _traceback(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    """One JSON object on a line."""

    def __init__(self) -> None:
        super().__init__()
        # Only this format pays for the import.
        from json import dumps  # noqa: PLC0415

        self._dumps = dumps

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": utc(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        held_back = getattr(record, "held_back", 0)
        if held_back:
            fields["held_back"] = held_back
        trace = _traceback(self, record)
        if trace:
            fields["traceback"] = trace
        return self._dumps(fields, ensure_ascii=False)


def utc(seconds: float) -> str:
    """Seconds since 1970 as `2026-11-18T14:08:11.123Z`."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return f"{moment}.{milliseconds:03d}Z"


def _single_line(message: str) -> str:
    """The message without line breaks, so that no client's name can forge a line of its own."""
    if message.isprintable():
        return message
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in message)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
