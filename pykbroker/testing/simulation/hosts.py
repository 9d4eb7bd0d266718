"""The host of a task."""

from contextvars import ContextVar
from typing import Final

HERE: Final = "here"
"""The default host."""

THIS_HOST: ContextVar[str] = ContextVar("host", default=HERE)
"""A task runs on the host of the task that started it."""
