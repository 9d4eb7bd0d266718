"""Writes the states of transactions into docs/transactions.md, from the table in states.

Run with `python -m tests.coordination.transactions.draw_states`; a test fails if the page is
outdated.
"""

from __future__ import annotations

import re
from pathlib import Path

from pykbroker.coordination.transactions import states
from pykbroker.coordination.transactions.states import ANSWERS, TRANSITIONS, Ends, TransactionState
from tests.coordination.draw_group_states import headed, words_of

PAGE = Path(__file__).parents[3] / "docs" / "transactions.md"
BEGIN = "<!-- drawn from states.py: begin -->"
END = "<!-- drawn from states.py: end -->"
HEADS = (
    "State",
    "InitProducerId",
    "AddPartitionsToTxn",
    "first commit / abort",
    "repeatable commit / abort",
    "may expire",
)


def drawn(page: str) -> str:
    """Returns the page with its generated part replaced."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    parts = (diagram(), table(), paragraphs())
    return f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}"


def diagram() -> str:
    arrows = [f"    {it.origin.value} --> {it.goal.value}: {it.cause}" for it in TRANSITIONS]
    first = f"    [*] --> {TransactionState.EMPTY.value}"
    last = f"    {TransactionState.DEAD.value} --> [*]"
    return "\n".join(["```mermaid", "stateDiagram-v2", first, *arrows, last, "```"])


def table() -> str:
    rows = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for state, answers in ANSWERS.items():
        rows.append(f"| {state.value} | {' | '.join(cell_of(it) for it in answers)} |")
    return "\n".join(rows)


def cell_of(answer: object) -> str:
    match answer:
        case bool():
            return "yes" if answer else "no"
        case Ends(commit, abort) if commit is abort:
            return words_of(commit)
        case Ends(commit, abort):
            return f"{words_of(commit)} / {words_of(abort)}"
        case _:
            return words_of(answer)


def paragraphs() -> str:
    """Returns the paragraph of each state from the docstring of the module."""
    _, *paragraphs = (states.__doc__ or "").strip().split("\n\n")
    return "\n\n".join(re.sub(r"^(\w+): (.)", headed, it) for it in paragraphs)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
