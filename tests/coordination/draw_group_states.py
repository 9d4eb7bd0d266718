"""Draws the states of classic groups into the documentation, from the table that decides.

`python -m tests.coordination.draw_group_states` writes them anew; a test sees that this was done.
"""

from __future__ import annotations

import re
from pathlib import Path

from pykbroker.coordination.groups import classic_state
from pykbroker.coordination.groups.classic_state import ANSWERS, MOVES, GroupState
from pykbroker_protocol.errors import ErrorCode

PAGE = Path(__file__).parents[2] / "docs" / "groups.md"
BEGIN = "<!-- drawn from classic_state.py: begin -->"
END = "<!-- drawn from classic_state.py: end -->"


def drawn(page: str) -> str:
    """The page with its drawn part made anew."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    parts = (diagram(), table(), paragraphs())
    return f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}"


def diagram() -> str:
    arrows = [f"    {it.origin.value} --> {it.goal.value}: {it.cause}" for it in MOVES]
    first = f"    [*] --> {GroupState.EMPTY.value}"
    last = f"    {GroupState.DEAD.value} --> [*]"
    return "\n".join(["```mermaid", "stateDiagram-v2", first, *arrows, last, "```"])


def table() -> str:
    heads = ("State", "a member's JoinGroup", "its SyncGroup", "its Heartbeat", "its OffsetCommit")
    rows = [f"| {' | '.join(heads)} | DeleteGroups |", "|---|---|---|---|---|---|"]
    for state, answers in ANSWERS.items():
        words = (words_of(it) for it in answers)
        rows.append(f"| {state.value} | {' | '.join(words)} |")
    return "\n".join(rows)


def words_of(answer: object) -> str:
    if isinstance(answer, ErrorCode):
        return "yes" if answer is ErrorCode.NONE else answer.name
    return str(getattr(answer, "name", answer)).lower().replace("_", " ")


def paragraphs() -> str:
    """One for each state, as the module tells them."""
    _, *told = (classic_state.__doc__ or "").strip().split("\n\n")
    return "\n\n".join(re.sub(r"^(\w+): (.)", headed, it) for it in told)


def headed(match: re.Match[str]) -> str:
    return f"**{match[1]}.** {match[2].upper()}"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
