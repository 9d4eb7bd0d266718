"""Sets up logging to stderr: one line per event, as text or JSON."""

import logging
import sys
import time
from collections.abc import Callable
from enum import Enum
from typing import TextIO

from pykbroker.telemetry.log_throttle import LogThrottle, suppressed_text

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
    """Adds a handler for stderr to the root logger; a second call replaces the handler."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(TextFormatter() if log_format is LogFormat.TEXT else JsonFormatter())
    handler.addFilter(ThrottleFilter(monotonic))
    root = logging.getLogger()
    for former in root.handlers[:]:
        if any(isinstance(each, ThrottleFilter) for each in former.filters):
            root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(LEVELS[level])


class ThrottleFilter(logging.Filter):
    """Suppresses lines that repeat too often; the next admitted line contains their number."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._throttle = LogThrottle()
        self._monotonic = monotonic

    def filter(self, record: logging.LogRecord) -> bool:
        # Lines are compared without arguments: the same error of 1,000 partitions is one kind.
        kind = (record.name, record.levelno, record.msg)
        suppressed = self._throttle.admit(kind, self._monotonic())
        if suppressed is None:
            return False
        record.held_back = suppressed
        return True


class TextFormatter(logging.Formatter):
    """`2026-11-18T14:08:11.123Z WARNING the message`; a traceback follows on separate lines."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{utc(record.created)} {record.levelname} {_single_line(record.getMessage())}"
        line += suppressed_text(getattr(record, "held_back", 0))
        trace = _traceback(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line; `held_back` is the number of suppressed lines."""

    def __init__(self) -> None:
        super().__init__()
        # Imported here: the text format does not need it.
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
    """Formats seconds since 1970 as `2026-11-18T14:08:11.123Z`."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return f"{moment}.{milliseconds:03d}Z"


def _single_line(message: str) -> str:
    """Escapes line breaks and control characters: client ids must not forge log lines."""
    if message.isprintable():
        return message
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in message)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
