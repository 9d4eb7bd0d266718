"""All conversations, each registered under a sentence derived from its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.apis.transcript import Transcript

    Conversation: TypeAlias = Callable[[Transcript], None]

CONVERSATIONS: dict[str, Conversation] = {}


def conversation(hold: Conversation) -> Conversation:
    assert hold.__name__ not in CONVERSATIONS
    CONVERSATIONS[hold.__name__] = hold
    return hold
