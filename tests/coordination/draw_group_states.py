"""Writes the states of classic groups into docs/groups.md, from the table in classic_state.

Run with `python -m tests.coordination.draw_group_states`; a test fails if the page is outdated.
"""

from __future__ import annotations

import re
from pathlib import Path

from pykbroker.coordination.groups import classic_state
from pykbroker.coordination.groups.classic_state import ANSWERS, TRANSITIONS, GroupState
from pykbroker_protocol.errors import ErrorCode

PAGE = Path(__file__).parents[2] / "docs" / "groups.md"
BEGIN = "<!-- drawn from classic_state.py: begin -->"
END = "<!-- drawn from classic_state.py: end -->"


def drawn(page: str) -> str:
    """Returns the page with its generated part replaced."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    parts = (diagram(), table(), paragraphs())
    return f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}"


def diagram() -> str:
    arrows = [f"    {it.origin.value} --> {it.goal.value}: {it.cause}" for it in TRANSITIONS]
    first = f"    [*] --> {GroupState.EMPTY.value}"
    last = f"    {GroupState.DEAD.value} --> [*]"
    return "\n".join(["```mermaid", "stateDiagram-v2", first, *arrows, last, "```"])


def table() -> str:
    heads = ("State", "JoinGroup of a member", "SyncGroup", "Heartbeat", "OffsetCommit")
    rows = [f"| {' | '.join(heads)} | DeleteGroups |", "|---|---|---|---|---|---|"]
    for state, answers in ANSWERS.items():
        words = (words_of(it) for it in answers)
        rows.append(f"| {state.value} | {' | '.join(words)} |")
    return "\n".join(rows)


def words_of(answer: object) -> str:
    if isinstance(answer, ErrorCode):
        return "accepted" if answer is ErrorCode.NONE else answer.name
    name = str(getattr(answer, "name", answer))
    return name if name in ErrorCode.__members__ else name.lower().replace("_", " ")


def paragraphs() -> str:
    """Returns the paragraph of each state from the docstring of the module."""
    _, *states = (classic_state.__doc__ or "").strip().split("\n\n")
    return "\n\n".join(re.sub(r"^(\w+): (.)", headed, it) for it in states)


def headed(match: re.Match[str]) -> str:
    return f"**{match[1]}.** {match[2].upper()}"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
