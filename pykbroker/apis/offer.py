"""What a node offers its clients: the APIs it serves, in which versions, and features."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis import APIS
from pykbroker.metadata.features import SUPPORTED_FEATURES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.apis import Api


class WhenTooNew(Enum):
    """What a client is told that asks for ApiVersions in a version that is not known yet."""

    NAMES_NOTHING = "nothing"
    NAMES_API_VERSIONS = "what it may ask instead (KIP-511)"
    NAMES_ALL = "all that is offered"


class Offer(NamedTuple):
    """Everything there is, unless somebody wants a node to look like another."""

    apis: Mapping[int, Api] = APIS
    features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES
    """The lowest and the highest level of each."""
    when_too_new: WhenTooNew = WhenTooNew.NAMES_API_VERSIONS


EVERYTHING = Offer()
