"""kafka-python, versions 2 and 3, as a client of the suite."""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from consuming import Consuming
from kafka.errors import CommitFailedError, KafkaError, KafkaTimeoutError
from line_program import Program, run
from producing import Producing

if TYPE_CHECKING:
    from admin import Administering
else:
    OPTIONS = json.loads(os.environ.get("PYKBROKER_COMPAT_OPTIONS", "{}"))
    Administering = import_module(OPTIONS.get("admin", "admin")).Administering


class KafkaPython(Program, Producing, Consuming, Administering):
    client = "kafka-python"

    def code_of(self, error: BaseException) -> int | str:
        errno = getattr(error, "errno", None)
        if isinstance(error, KafkaTimeoutError):
            return "TIMED_OUT"
        if isinstance(error, CommitFailedError):
            return "COMMIT_FAILED"
        if isinstance(error, KafkaError) and errno is not None and errno >= 0:
            return int(errno)
        return "CLIENT"

    def close_quickly(self, opened: Any) -> None:
        if hasattr(opened, "flush"):
            opened.close(timeout=1)
        else:
            opened.close()


if __name__ == "__main__":
    run(KafkaPython())
