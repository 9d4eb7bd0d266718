"""Records what clients send, receive and read, and checks the history for anomalies.

from pykbroker.testing.history import History, Record, check

history = History()
writer = history.client("writer")
sending = writer.sending("trucks", "at the depot", partition=0)
...  # the client of your choice sends
sending.sent(partition=0, offset=17)

reader = history.client("reader")
reader.polled([Record("trucks", 0, 17, "at the depot")])

for finding in check(history):
    print(finding)
"""

from pykbroker.testing.history.checking import check, expect_sound
from pykbroker.testing.history.deliveries import Deliveries, count_deliveries
from pykbroker.testing.history.events import Event, Isolation, Outcome, Place, Record, RecordId
from pykbroker.testing.history.findings import Anomaly, Finding
from pykbroker.testing.history.json_lines import MalformedHistoryError
from pykbroker.testing.history.recording import (
    Client,
    History,
    OffsetsCommitting,
    Sending,
    Transaction,
)

__all__ = [
    "Anomaly",
    "Client",
    "Deliveries",
    "Event",
    "Finding",
    "History",
    "Isolation",
    "MalformedHistoryError",
    "OffsetsCommitting",
    "Outcome",
    "Place",
    "Record",
    "RecordId",
    "Sending",
    "Transaction",
    "check",
    "count_deliveries",
    "expect_sound",
]
