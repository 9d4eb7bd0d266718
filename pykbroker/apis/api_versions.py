"""ApiVersions: what this node offers, told to a client that may speak another generation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pykbroker.apis import APIS
from pykbroker.controller.features import SUPPORTED_FEATURES
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
    from pykbroker.apis.node import Call
    from pykbroker.controller.image import ClusterImage

SOFTWARE_SINCE_VERSION = 3
ZERO_MINIMUM_SINCE_VERSION = 4
"""Older Java clients cannot read a feature whose minimum is 0 (KAFKA-17011)."""

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if call.version >= SOFTWARE_SINCE_VERSION:
        names = (request.client_software_name, request.client_software_version)
        if not all(SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
        call.peer.software_name, call.peer.software_version = names
    return offered(call.node.image, call.version)


def offered(image: ClusterImage, version: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=[row(api.key) for api in APIS.values()],
        supported_features=supported_features(version),
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(image.features.items())
            if level > 0
        ],
    )


def supported_features(version: int) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in SUPPORTED_FEATURES.items()
        if lowest > 0 or version >= ZERO_MINIMUM_SINCE_VERSION
    ]


def too_new() -> ApiVersionsResponse:
    """The answer to a version we do not know, in version 0: what may be asked instead."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row(ApiKey.API_VERSIONS)]
    )


def row(key: int) -> ApiVersion:
    advertised = APIS[key].advertised
    return ApiVersion(api_key=key, min_version=advertised.first, max_version=advertised.last)
