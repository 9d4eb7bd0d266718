"""Matches the names of topics against a regular expression, in time linear in their length.

A member chooses the expression and every heartbeat of its group would pay for it, so matching must
not be able to explode as Python's `re` can. The expression becomes a nondeterministic automaton;
its sets of states are remembered as the states of a deterministic one. Both have a bound.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, assert_never

from pykbroker.coordination.groups.consumer_regex_syntax import (
    WORD,
    Anchor,
    BadRegex,
    Choice,
    Node,
    Parser,
    Repeat,
    Sequence,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.groups.consumer_regex_syntax import Letters

__all__ = ["BadRegex", "Regex", "TooCostly", "compile_regex"]

STATES_MAX = 10_000
"""Of the nondeterministic automaton."""
EFFORT_MAX = 500_000
"""Steps of that automaton which may be taken for one list of topics: less than a second."""
REMEMBERED_MAX = 2_000
"""States of the deterministic automaton that are kept."""

Edge = tuple["Letters | Anchor | None", int]
"""What has to come, and the state behind it; nothing has to come for None."""
Step = frozenset[int]


class TooCostly(BadRegex):
    """It can be read, but not be matched within bounds."""


@lru_cache(maxsize=64)
def compile_regex(pattern: str) -> Regex:
    return Regex(Parser(pattern).parse())


class Regex:
    """Matches whole names."""

    __slots__ = ("_effort", "_remembered", "accepting", "edges")

    def __init__(self, node: Node) -> None:
        self.edges: list[list[Edge]] = [[]]
        self.accepting = self.build(node, 0)
        self._remembered: dict[tuple[Step, int, int], Step] = {}
        self._effort = 0

    # The automaton

    def state(self) -> int:
        if len(self.edges) >= STATES_MAX:
            raise TooCostly("expression too large")
        self.edges.append([])
        return len(self.edges) - 1

    def build(self, node: Node, start: int) -> int:
        """Add states for a part of the expression behind `start`; the last of them."""
        match node:
            case frozenset() | Anchor():
                end = self.state()
                self.edges[start].append((node, end))
                return end
            case Sequence():
                for part in node.parts:
                    start = self.build(part, start)
                return start
            case Choice():
                end = self.state()
                for option in node.options:
                    self.edges[self.build(option, self.behind(start))].append((None, end))
                return end
            case Repeat():
                return self.build_repeat(node, start)
        assert_never(node)

    def behind(self, start: int) -> int:
        state = self.state()
        self.edges[start].append((None, state))
        return state

    def build_repeat(self, node: Repeat, start: int) -> int:
        for _ in range(node.at_least):
            start = self.build(node.part, start)
        if node.at_most is None:
            loop = self.behind(start)
            self.edges[self.build(node.part, loop)].append((None, loop))
            return self.behind(loop)
        end = self.state()
        for _ in range(node.at_most - node.at_least):
            self.edges[start].append((None, end))
            start = self.build(node.part, start)
        self.edges[start].append((None, end))
        return end

    # Matching

    def matches(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that match from their first character to their last."""
        self._effort = 0
        return frozenset(name for name in names if self.is_match(name))

    def is_match(self, name: str) -> bool:
        # A line end stands for both ends of the name: neither it nor they are part of a word.
        codes = [NO_CHAR, *map(ord, name), NO_CHAR]
        states: Step = frozenset({0})
        for before, char in pairwise(codes):
            states = self.step(states, before, char)
            if not states:
                return False
        return self.accepting in states

    def step(self, states: Step, before: int, char: int) -> Step:
        """From the states ahead of a character to those behind it; at the end, all within reach."""
        # Of what came before, it only matters whether there was anything and whether in a word.
        look_back = NO_CHAR if before == NO_CHAR else int(before in WORD)
        key = (states, look_back, char)
        if (found := self._remembered.get(key)) is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            found = self._remembered[key] = self.walk(states, look_back, char)
        return found

    def walk(self, states: Step, look_back: int, char: int) -> Step:
        reached, waiting, behind = set(states), list(states), set[int]()
        while waiting:
            edges = self.edges[waiting.pop()]
            self._effort += 1 + len(edges)
            for what, state in edges:
                if isinstance(what, frozenset):
                    if char in what:
                        behind.add(state)
                elif state not in reached and (what is None or holds(what, look_back, char)):
                    reached.add(state)
                    waiting.append(state)
        if self._effort > EFFORT_MAX:
            raise TooCostly("expression too costly to match")
        return frozenset(reached if char == NO_CHAR else behind)


NO_CHAR = -1


def holds(anchor: Anchor, look_back: int, char: int) -> bool:
    is_boundary = (look_back == 1) != (char in WORD)
    match anchor:
        case Anchor.START:
            return look_back == NO_CHAR
        case Anchor.END:
            return char == NO_CHAR
        case Anchor.WORD_BOUNDARY:
            return is_boundary
        case Anchor.NO_WORD_BOUNDARY:
            return not is_boundary
    assert_never(anchor)
