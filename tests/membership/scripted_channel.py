"""A ControllerChannel whose responses are prepared."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykbroker_protocol.message import Message, Versions


class ScriptedChannel:
    """Answers each request with the next outcome; without one, requests wait."""

    def __init__(self, *outcomes: Message | Exception) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[Any] = []
        self.versions: dict[int, Versions] = {}

    async def request(
        self,
        request: Message,
        response_type: Any,
        *,
        version_max: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Any:
        assert version_max is None
        assert timeout_seconds is None or timeout_seconds > 0
        self.requests.append(request)
        if not self.outcomes:
            await asyncio.Event().wait()
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, response_type)
        return outcome

    def versions_of(self, api_key: int) -> Versions | None:
        return self.versions.get(api_key)
