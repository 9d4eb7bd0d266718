"""Replays records of a cluster that has more than this broker serves.

ACLs, SCRAM credentials, quotas and delegation tokens are counted, not applied: a broker that
ignored them would serve requests that the cluster forbids. The caller refuses the cluster while any
exist.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pykbroker.metadata.replay import Replay
from pykbroker_protocol.metadata.cluster import ZkMigrationStateRecord
from pykbroker_protocol.metadata.security import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.metadata.image import ClusterImage
    from pykbroker_protocol.message import Message

UnservedKey: TypeAlias = tuple[str, object]

ACLS: Final = "ACLs"
SCRAM: Final = "SCRAM credentials"
QUOTAS: Final = "client quotas"
TOKENS: Final = "delegation tokens"


class Unserved:
    """Objects of the cluster that restrict clients and that this broker does not enforce."""

    def __init__(self) -> None:
        self._keys: set[UnservedKey] = set()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def clear(self) -> None:
        self._keys.clear()

    def apply(self, record: Message) -> bool:
        """Returns False for a record of another kind."""
        key_of = _KEYS.get(type(record))
        if key_of is None:
            return False
        exists, key = key_of(record)
        if exists:
            self._keys.add(key)
        else:
            self._keys.discard(key)
        return True

    @property
    def reason(self) -> str | None:
        """Returns why a broker must not serve this cluster, or None."""
        if not self._keys:
            return None
        counts = Counter(kind for kind, _ in self._keys)
        listed = ", ".join(f"{kind} (number: {count})" for kind, count in sorted(counts.items()))
        return (
            f"the cluster has {listed}, which this broker does not enforce; remove them, or serve "
            "this cluster with brokers of Apache Kafka only"
        )


class MemberReplay(Replay):
    """Like `Replay`, for a broker under the controllers of Apache Kafka."""

    def __init__(self, image: ClusterImage, unserved: Unserved) -> None:
        super().__init__(image)
        self._unserved = unserved

    def add(self, record: Message) -> None:
        if isinstance(record, ZkMigrationStateRecord):
            return  # clusters of release 3 begin with one; it has no effect without ZooKeeper
        if not self._unserved.apply(record):
            super().add(record)


_KEYS: dict[type[Message], Callable[[Any], tuple[bool, UnservedKey]]] = {
    AccessControlEntryRecord: lambda it: (True, (ACLS, it.id)),
    RemoveAccessControlEntryRecord: lambda it: (False, (ACLS, it.id)),
    UserScramCredentialRecord: lambda it: (True, (SCRAM, (it.name, it.mechanism))),
    RemoveUserScramCredentialRecord: lambda it: (False, (SCRAM, (it.name, it.mechanism))),
    ClientQuotaRecord: lambda it: (not it.remove, (QUOTAS, _quota_key(it))),
    DelegationTokenRecord: lambda it: (True, (TOKENS, it.token_id)),
    RemoveDelegationTokenRecord: lambda it: (False, (TOKENS, it.token_id)),
}


def _quota_key(record: ClientQuotaRecord) -> tuple[object, ...]:
    entities = sorted((it.entity_type, it.entity_name or "") for it in record.entity)
    return (*entities, record.key)
