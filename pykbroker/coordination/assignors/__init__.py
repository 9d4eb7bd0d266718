"""Server-side assignors: pure functions from subscriptions to assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.assignors.range import assign_range
from pykbroker.coordination.assignors.uniform import assign_uniform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.coordination.assignors.assignor import Assignor

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
