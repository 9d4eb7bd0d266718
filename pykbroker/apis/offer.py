"""The APIs, versions and features that a node advertises to clients."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis import APIS
from pykbroker.metadata.features import SUPPORTED_FEATURES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.apis import Api


class WhenTooNew(Enum):
    """The content of the response to an unsupported version of ApiVersions."""

    NAMES_NOTHING = "nothing"
    NAMES_API_VERSIONS = "what it may ask instead (KIP-511)"
    NAMES_ALL = "all that is offered"


class Offer(NamedTuple):
    """The advertised APIs and features; by default all, in tests those of another release."""

    apis: Mapping[int, Api] = APIS
    features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES
    """Minimum and maximum level by feature."""
    when_too_new: WhenTooNew = WhenTooNew.NAMES_API_VERSIONS


EVERYTHING = Offer()
