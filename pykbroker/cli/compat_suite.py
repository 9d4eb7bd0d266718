"""`pykbroker-compat`: runs the compatibility suite of a checkout; no wheel contains it."""

from __future__ import annotations

import sys

from pykbroker.cli.failure import ExitCode

_NOT_A_CHECKOUT = (
    "pykbroker-compat: the compatibility suite is only available in a checkout of PyKBroker:"
    " run `make install` there, then .venv/bin/pykbroker-compat"
)


def main() -> int:
    try:
        from compat.command_line import main as run  # noqa: PLC0415 - only in a checkout
    except ModuleNotFoundError as missing:
        if missing.name not in ("compat", "compat.command_line"):
            raise
        print(_NOT_A_CHECKOUT, file=sys.stderr)
        return ExitCode.NOT_STARTED
    return run()
