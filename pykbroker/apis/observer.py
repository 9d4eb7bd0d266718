"""The hook through which a test kit sees, changes and delays requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pykbroker.apis import Api, Handle


class RequestObserver(Protocol):
    """Stands around the handlers of a broker. Decoding, version checks and order stay the same."""

    def wrap(self, api: Api, handle: Handle) -> Handle:
        """Returns the handler that serves this API in place of `handle`."""
        ...
