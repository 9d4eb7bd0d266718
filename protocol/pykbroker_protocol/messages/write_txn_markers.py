"""WriteTxnMarkers: appends commit or abort markers to the partitions of transactions.

Served versions: 1-2
     1  flexible
     2  transaction_version (KIP-1228)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class WritableTxnMarkerTopic(Message):
    name: str = string("0+")
    partition_indexes: Sequence[int] = array(INT32, "0+")


class WritableTxnMarker(Message):
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_result: bool = boolean("0+")
    topics: Sequence[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+")
    coordinator_epoch: int = int32("0+")
    transaction_version: int = int8("2+", default=0, ignorable=True)


class WriteTxnMarkersRequest(Message, api=ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible="1+"):
    markers: Sequence[WritableTxnMarker] = array(WritableTxnMarker, "0+")


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class WritableTxnMarkerTopicResult(Message):
    name: str = string("0+")
    partitions: Sequence[WritableTxnMarkerPartitionResult] = array(
        WritableTxnMarkerPartitionResult, "0+"
    )


class WritableTxnMarkerResult(Message):
    producer_id: int = int64("0+")
    topics: Sequence[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+")


class WriteTxnMarkersResponse(Message, api=ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible="1+"):
    markers: Sequence[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+")
