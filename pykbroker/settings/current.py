"""The settings in force, which parts of the broker subscribe to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.settings.values import Settings

    Apply = Callable[[Settings], None]
    Attempt = Callable[[str, Callable[[], None]], None]


class CurrentSettings:
    """A frozen Settings value, and the parts of the broker that apply each change."""

    __slots__ = ("_subscribers", "value")

    def __init__(self, value: Settings) -> None:
        self.value = value
        self._subscribers: dict[str, Apply] = {}

    def subscribe(self, part: str, apply: Apply) -> None:
        """Calls `apply` with the new settings after each change."""
        assert part not in self._subscribers, f"{part} is subscribed already"
        self._subscribers[part] = apply

    def change(self, value: Settings, attempt: Attempt) -> None:
        """Publishes new settings; `attempt` runs the subscriber of each part.

        An attempt that is repeated later applies the settings that are in force then.
        """
        self.value = value
        for part, apply in self._subscribers.items():
            attempt(f"settings of {part}", lambda apply=apply: apply(self.value))  # type: ignore[misc]  # bound now
