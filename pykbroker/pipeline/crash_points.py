"""Points in the code where tests crash a pipeline."""

from __future__ import annotations

import os
from enum import Enum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HOOK_VARIABLE: Final = "PYKBROKER_PIPELINE_CRASH_POINTS"
"""Environment variable with a test hook, `module:function`, called with each crash point."""


class CrashPoint(Enum):
    # change of the number of slots
    CHANGING_SLOTS = "all slots are fenced, the number is written next"
    # transaction of a slot
    PRODUCING = "a record was produced"
    PRODUCED = "all records were produced"
    MARKED = "the offset is in the transaction"
    PUBLISHED = "the transaction was committed"
    # archived batch
    STAGED = "the files are staged"
    RECORDED = "the batch is recorded"
    MOVED = "a file was moved to the archive"
    ARCHIVED = "all files are in the archive"


def reached(point: CrashPoint) -> None:
    """Calls the test hook, if there is one."""
    hook = _hook()
    if hook is not None:
        hook(point)


@cache
def _hook() -> Callable[[CrashPoint], None] | None:
    name = os.environ.get(HOOK_VARIABLE)
    if not name:
        return None
    module, _, function = name.partition(":")
    hook: Callable[[CrashPoint], None] = getattr(import_module(module), function)
    return hook
