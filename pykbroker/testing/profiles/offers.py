"""The APIs, versions and features that a broker advertises to look like another release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykbroker.apis import APIS
from pykbroker.apis.offer import EVERYTHING, Offer, WhenTooNew
from pykbroker.metadata.features import METADATA_VERSION, SUPPORTED_FEATURES
from pykbroker.testing.error_responses import error_response
from pykbroker.testing.profiles.releases import (
    Release,
    UnknownVersion,
    known_versions,
    release_named,
)
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call
    from pykbroker_protocol.message import Message

__all__ = ["UnknownVersion", "known_versions", "offer_as"]

NAMES_VERSIONS_SINCE: Final = (2, 4)
"""KIP-511: earlier releases do not list the supported versions of ApiVersions with
UNSUPPORTED_VERSION. Redpanda lists the versions of all APIs, according to its source code."""

NEW_GROUPS_SINCE: Final = (4, 0)
"""KIP-848: earlier releases respond to requests of the consumer group protocol with
UNSUPPORTED_VERSION unless `group.coordinator.rebalance.protocols` enables it."""

NEW_GROUP_APIS: Final = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE})


def offer_as(version: str | None) -> Offer:
    """Returns what a release advertises. Raises UnknownVersion, which lists the known releases."""
    if version is None:
        return EVERYTHING
    release = release_named(version)
    apis = (offered(api, release) for api in APIS.values())
    return Offer(
        apis={api.key: api for api in apis if api is not None},
        features=features_of(release),
        when_too_new=when_too_new(release),
    )


def when_too_new(release: Release) -> WhenTooNew:
    if not release.is_apache:
        return WhenTooNew.NAMES_ALL
    is_newer = release.number >= NAMES_VERSIONS_SINCE
    return WhenTooNew.NAMES_API_VERSIONS if is_newer else WhenTooNew.NAMES_NOTHING


def offered(api: Api, release: Release) -> Api | None:
    found = release.apis.get(api.name.upper())
    if found is None:
        return None
    is_off = release.is_apache and release.number < NEW_GROUPS_SINCE
    refuse = is_off and api.key in NEW_GROUP_APIS
    return api.limited(*found, handle=refuse_new_groups(api) if refuse else None)


def refuse_new_groups(api: Api) -> Handle:
    def refuse(request: Any, call: Call) -> Message:
        code = ErrorCode.UNSUPPORTED_VERSION
        answer: Message = error_response(request, api.response_type, call.version, code)
        return answer

    return refuse


def features_of(release: Release) -> dict[str, tuple[int, int]]:
    """The release's feature ranges. metadata.version is advertised unchanged and has no effect."""
    found = {}
    for name, (lowest, highest) in release.features.items():
        if name == METADATA_VERSION:
            found[name] = (lowest, highest)
        elif name in SUPPORTED_FEATURES:
            ours = SUPPORTED_FEATURES[name]
            found[name] = (max(lowest, ours[0]), min(highest, ours[1]))
    return found
