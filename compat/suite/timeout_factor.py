"""How much longer than usual the suite waits, on a machine that has other things to do."""

import os

VARIABLE = "PYKBROKER_COMPAT_PATIENCE"


def scaled(seconds: float) -> float:
    """A time to wait, multiplied by what the environment says."""
    return seconds * float(os.environ.get(VARIABLE, "1"))
