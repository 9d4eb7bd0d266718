"""Reads Apache Kafka's message definitions from its jars."""

import zipfile
from pathlib import PurePosixPath

from compat.apache.installation import KAFKA_VERSION, install

_FOLDERS = ("common/message/", "common/metadata/")
_JARS = (
    "kafka-clients",  # requests, responses and the consumer protocol
    "kafka-metadata",  # records of the metadata log
    "kafka-group-coordinator",  # records of __consumer_offsets
    "kafka-transaction-coordinator",  # records of __transaction_state
    "kafka-share-coordinator",  # records of __share_group_state
    "kafka-raft",  # quorum state
)


def message_definitions() -> dict[str, str]:
    """Returns the JSON text (with comments) of every message by name, such as `ProduceRequest`."""
    definitions: dict[str, str] = {}
    for jar in _JARS:
        with zipfile.ZipFile(install() / f"{jar}-{KAFKA_VERSION}.jar") as archive:
            for entry in archive.namelist():
                if entry.startswith(_FOLDERS) and entry.endswith(".json"):
                    definitions[PurePosixPath(entry).stem] = archive.read(entry).decode()
    return definitions
