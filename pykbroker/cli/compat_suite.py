"""`pykbroker-compat`: the compatibility suite, where it is at hand.

It lives in a checkout, with the clients in their languages that it builds, and is in no wheel.
"""

from __future__ import annotations

import sys

_NOT_HERE = (
    "pykbroker-compat: the compatibility suite is part of a checkout of PyKBroker, not of what pip"
    " installs; after `make install` there, .venv/bin/pykbroker-compat runs it against any broker"
)


def main() -> int:
    try:
        from compat.command_line import main as run  # noqa: PLC0415 - it may not be there
    except ModuleNotFoundError as missing:
        if missing.name not in ("compat", "compat.command_line"):
            raise
        print(_NOT_HERE, file=sys.stderr)
        return 2
    return run()
