"""Ways in which the coordinator shares partitions out: pure functions of who subscribes to what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.assignors.range import assign_range
from pykbroker.coordination.assignors.uniform import assign_uniform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.coordination.assignors.question import Assignor

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
