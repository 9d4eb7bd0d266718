"""Where a task of a simulated world lives."""

from contextvars import ContextVar
from typing import Final

HERE: Final = "here"
"""The host of whoever was not put on another."""

THIS_HOST: ContextVar[str] = ContextVar("host", default=HERE)
"""Tasks live where the task lives that has started them."""
