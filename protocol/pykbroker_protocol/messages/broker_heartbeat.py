"""BrokerHeartbeat: keeps the session of a broker with the active controller.

Not served. Declared versions: 0-2
     0  first version, flexible (KIP-631)
     1  offline_log_dirs (KIP-858)
     2  cordoned_log_dirs (KIP-1066)
Reason: Brokers send it to a controller; controllers serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    UUID,
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class BrokerHeartbeatRequest(Message, api=ApiKey.BROKER_HEARTBEAT, versions="0-2", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    current_metadata_offset: int = int64("0+")
    want_fence: bool = boolean("0+", default=False)
    want_shut_down: bool = boolean("0+", default=False)
    offline_log_dirs: Sequence[bytes] = array(UUID, "1+", tag=0, default=())
    cordoned_log_dirs: Sequence[bytes] | None = array(
        UUID, "2+", nullable="2+", tag=1, default=None
    )


class BrokerHeartbeatResponse(Message, api=ApiKey.BROKER_HEARTBEAT, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    is_caught_up: bool = boolean("0+", default=False)
    is_fenced: bool = boolean("0+", default=True)
    should_shut_down: bool = boolean("0+", default=False)
