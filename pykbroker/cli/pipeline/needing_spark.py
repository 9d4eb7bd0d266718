"""What every command says that needs Spark where there is none."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from pykbroker.cli.failure import CannotBegin
from pykbroker.extras import how_to_install

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

Result = TypeVar("Result")


def needs_spark(command: Callable[[Namespace], Result]) -> Callable[[Namespace], Result]:
    """A command that is refused in one line if pyspark is not installed."""

    @functools.wraps(command)
    def checked(options: Namespace) -> Result:
        if find_spec("pyspark") is None:
            raise CannotBegin(f"pyspark is not installed: {how_to_install('spark')}")
        return command(options)

    return checked
