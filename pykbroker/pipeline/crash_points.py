"""The moments at which a crash would matter, told to whoever rehearses one."""

from __future__ import annotations

import os
from enum import Enum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HOOK_VARIABLE: Final = "PYKBROKER_PIPELINE_CRASH_POINTS"
"""Names a function, `module:function`, in all of a pipeline's processes; it gets the moment."""


class CrashPoint(Enum):
    # of a change of the number of slots
    CHANGING_SLOTS = "all slots are taken, and the number is written next"
    # of a slot's transaction
    PRODUCING = "a record was produced"
    PRODUCED = "all records were produced"
    MARKED = "the batch is marked in the transaction"
    PUBLISHED = "the transaction was committed"
    # of an archived batch
    STAGED = "the files are staged"
    RECORDED = "the batch is recorded"
    MOVED = "a file was moved into place"
    ARCHIVED = "all files are in place"


def reached(moment: CrashPoint) -> None:
    """In production nobody listens."""
    listener = _listener()
    if listener is not None:
        listener(moment)


@cache
def _listener() -> Callable[[CrashPoint], None] | None:
    name = os.environ.get(HOOK_VARIABLE)
    if not name:
        return None
    module, _, function = name.partition(":")
    found: Callable[[CrashPoint], None] = getattr(import_module(module), function)
    return found
