"""Factor for all timeouts of the suite, for busy machines."""

import os

VARIABLE = "PYKBROKER_COMPAT_PATIENCE"


def scaled(seconds: float) -> float:
    """Returns a timeout multiplied by the factor of the environment."""
    return seconds * float(os.environ.get(VARIABLE, "1"))
