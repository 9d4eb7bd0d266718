"""What the broker tells its operator."""

from pykbroker.telemetry.logs import LEVELS, LogFormat, configure_logging
from pykbroker.telemetry.repetition import Repetition

__all__ = ["LEVELS", "LogFormat", "Repetition", "configure_logging"]
