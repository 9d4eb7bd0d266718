"""ApiVersions: returns the advertised APIs, versions and features."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pykbroker.apis.offer import WhenTooNew
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.apis import Api
    from pykbroker.apis.node import Call
    from pykbroker.apis.offer import Offer
    from pykbroker.controller_access import RequestForwarding
    from pykbroker.metadata.image import ClusterImage

SOFTWARE_SINCE_VERSION = 3
ZERO_MINIMUM_SINCE_VERSION = 4
"""Older Java clients cannot read a feature whose minimum is 0 (KAFKA-17011)."""

NO_EPOCH = -1

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if call.version >= SOFTWARE_SINCE_VERSION:
        names = (request.client_software_name, request.client_software_version)
        if not all(SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
        call.peer.software_name, call.peer.software_version = names
    return offered(call.node.offer, call.node.image, call.version, call.node.forward)


def offered(
    offer: Offer, image: ClusterImage, version: int, forward: RequestForwarding | None = None
) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=(
            [row(api) for api in offer.apis.values()]
            if forward is None
            else list(rows_with_controller(offer, forward))
        ),
        supported_features=supported_features(offer, version),
        finalized_features_epoch=image.offset if offer.features else NO_EPOCH,
        finalized_features=list(finalized_features(offer, image)),
    )


def rows_with_controller(offer: Offer, forward: RequestForwarding) -> Iterator[ApiVersion]:
    """Limits forwarded APIs to the versions that the active controller also offers, if known."""
    for api in offer.apis.values():
        ours = row(api)
        theirs = forward.versions_of(api.key) if api.forwarded else None
        if theirs is None:
            yield ours
            continue
        first = max(ours.min_version, theirs.first)
        last = min(ours.max_version, theirs.last)
        if first <= last:
            yield ours.replace(min_version=first, max_version=last)


def supported_features(offer: Offer, version: int) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in offer.features.items()
        if lowest > 0 or version >= ZERO_MINIMUM_SINCE_VERSION
    ]


def finalized_features(offer: Offer, image: ClusterImage) -> Iterator[FinalizedFeatureKey]:
    for name, level in sorted(image.features.items()):
        _, highest = offer.features.get(name, (0, 0))
        if (shown := min(level, highest)) > 0:
            yield FinalizedFeatureKey(name=name, max_version_level=shown, min_version_level=shown)


def too_new(offer: Offer) -> ApiVersionsResponse:
    """Returns the response to an unsupported version; it is encoded in version 0 (KIP-511)."""
    match offer.when_too_new:
        case WhenTooNew.NAMES_NOTHING:
            named = []
        case WhenTooNew.NAMES_API_VERSIONS:
            named = [row(offer.apis[ApiKey.API_VERSIONS])]
        case WhenTooNew.NAMES_ALL:
            named = [row(api) for api in offer.apis.values()]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=named)


def row(api: Api) -> ApiVersion:
    advertised = api.advertised
    return ApiVersion(api_key=api.key, min_version=advertised.first, max_version=advertised.last)
