"""Logging: set-up, formats, levels and throttling."""

from pykbroker.telemetry.log_throttle import LogThrottle
from pykbroker.telemetry.logs import LEVELS, LogFormat, configure_logging

__all__ = ["LEVELS", "LogFormat", "LogThrottle", "configure_logging"]
