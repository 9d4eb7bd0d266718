"""Matches names against a regular expression with bounded effort and memory.

Members choose the expressions, so matching must not take exponential time as Python's `re` can. The
expression becomes a nondeterministic automaton (NFA). Sets of its states become the states of a
deterministic one (DFA) while names are matched. RE2 works the same way. The size of the NFA is
computed before it is built; a `Matching` proceeds in slices of bounded effort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pykbroker.coordination.groups.consumer_regex_syntax import (
    NEWLINE,
    OTHER,
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
    from collections.abc import Iterable, Iterator

    from pykbroker.coordination.groups.consumer_regex_syntax import Letters

__all__ = ["BadRegex", "Matching", "Regex", "TooCostly", "compile_regex"]

PROGRAM_SIZE_MAX = 12_000
"""States of the NFA, about 2 MB. A list of names of `PATTERN_LENGTH_MAX` characters fits."""
EFFORT_MAX = 2_000_000
"""NFA edges visited for one list of names. New DFA states cost this effort, known ones do not."""
DFA_SIZE_MAX = 50_000
"""NFA states in all DFA states, plus DFA transitions, about 5 MB; beyond it the DFA is cleared."""
SLICE_EFFORT = 10_000
"""Edges visited in one slice, plus an eighth of the characters: 1 ms, 4 ms in the largest NFA."""

Edge = tuple["Letters | Anchor | None", int]
"""The characters or anchor that the edge requires (None: nothing), and the next state."""


class TooCostly(BadRegex):
    """A valid expression that cannot be matched within `EFFORT_MAX`."""


def compile_regex(pattern: str) -> Regex:
    """Returns the NFA; raises `BadRegex` if the expression is invalid or too large."""
    node = Parser(pattern).parse()
    if size_of(node) > PROGRAM_SIZE_MAX:
        raise BadRegex("expression too large")
    return Regex(node)


def size_of(node: Node) -> int:
    """The number of states that `Regex` builds, or more. Empty parts count, because loops do."""
    match node:
        case frozenset() | Anchor():
            return 1
        case Sequence():
            return max(1, sum(map(size_of, node.parts)))
        case Choice():
            return 1 + sum(1 + size_of(option) for option in node.options)
        case Repeat():
            copies = node.at_least + 1 if node.at_most is None else node.at_most
            return 2 + copies * size_of(node.part)
    assert_never(node)


class Regex:
    """The NFA of an expression. A match covers the whole name."""

    __slots__ = ("accepting", "edges")

    def __init__(self, node: Node) -> None:
        self.edges: list[list[Edge]] = [[]]
        self.accepting = self.build(node, 0)

    def state(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def build(self, node: Node, start: int) -> int:
        """Adds the states of a part of the expression after `start`; returns the last one."""
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
                    self.edges[self.build(option, self.add_state_after(start))].append((None, end))
                return end
            case Repeat():
                return self.build_repeat(node, start)
        assert_never(node)

    def add_state_after(self, start: int) -> int:
        state = self.state()
        self.edges[start].append((None, state))
        return state

    def build_repeat(self, node: Repeat, start: int) -> int:
        for _ in range(node.at_least):
            start = self.build(node.part, start)
        if node.at_most is None:
            loop = self.add_state_after(start)
            self.edges[self.build(node.part, loop)].append((None, loop))
            return self.add_state_after(loop)
        end = self.state()
        for _ in range(node.at_most - node.at_least):
            self.edges[start].append((None, end))
            start = self.build(node.part, start)
        self.edges[start].append((None, end))
        return end

    def matches(self, names: Iterable[str]) -> frozenset[str]:
        """Returns the matching names of a short list, in one call."""
        matching = Matching(self, names)
        while not matching.advance(SLICE_EFFORT):
            pass
        return matching.found


NO_CHAR = ""
"""The character before and after a name; like a newline, it is not part of a word."""
BEFORE_NAME, AFTER_NEWLINE, AFTER_WORD, AFTER_OTHER = range(4)
"""The kind of the previous character, which anchors depend on."""


class DfaState:
    """A set of NFA states after a character, and the next DFA state by character."""

    __slots__ = ("after", "previous_kind", "states")

    def __init__(self, states: frozenset[int], previous_kind: int) -> None:
        self.states = states
        self.previous_kind = previous_kind
        self.after: dict[str, DfaState] = {}


class Matching:
    """Matches an expression against a list of names, one slice after the other."""

    __slots__ = (
        "_dfa",
        "_found",
        "_regex",
        "_slice_end",
        "_slices",
        "_start",
        "dfa_size",
        "effort",
    )

    def __init__(self, regex: Regex, names: Iterable[str]) -> None:
        self._regex = regex
        self._found: list[str] = []
        self.effort = 0
        """Edges visited so far."""
        self._slice_end = 0
        self._slices = self._match(tuple(names))
        self._clear()

    @property
    def found(self) -> frozenset[str]:
        return frozenset(self._found)

    @property
    def effort_left(self) -> int:
        """Unused effort of the last slice."""
        return self._slice_end - self.effort

    def advance(self, effort: int) -> bool:
        """Runs a slice of about this effort; returns whether all names are matched.

        Raises `TooCostly` if the names need more than `EFFORT_MAX`.
        """
        self._slice_end = self.effort + effort
        return next(self._slices, True)

    def _match(self, names: tuple[str, ...]) -> Iterator[bool]:
        """Yields False at the end of each slice."""
        for name in names:
            state = self._start
            for char in (*name, NO_CHAR):
                following = state.after.get(char)
                if following is None:
                    following = self._next_state(state, char)
                    if self.effort >= self._slice_end:
                        yield False
                state = following
                if not state.states:
                    break
            if self._regex.accepting in state.states:
                self._found.append(name)
            self._slice_end -= 1 + len(name) // 8
            if self.effort >= self._slice_end:
                yield False

    def _next_state(self, state: DfaState, char: str) -> DfaState:
        """Returns the DFA state after a character, or after the end of the name (`NO_CHAR`)."""
        code = min(ord(char), OTHER) if char else -1
        edges_of = self._regex.edges
        reached, waiting, following_states = set(state.states), list(state.states), set[int]()
        effort = 0
        while waiting:
            edges = edges_of[waiting.pop()]
            effort += 1 + len(edges)
            for condition, target in edges:
                if isinstance(condition, frozenset):
                    if code in condition:
                        following_states.add(target)
                elif target not in reached and (
                    condition is None or holds(condition, state.previous_kind, code)
                ):
                    reached.add(target)
                    waiting.append(target)
        self.effort += effort
        if self.effort > EFFORT_MAX:
            raise TooCostly("expression too costly to match")
        following = self._known(
            frozenset(reached if not char else following_states), previous_kind_of(code)
        )
        state.after[char] = following
        return following

    def _known(self, states: frozenset[int], previous_kind: int) -> DfaState:
        key = states, previous_kind
        self.dfa_size += 1
        if (known := self._dfa.get(key)) is None:
            if self.dfa_size + len(states) > DFA_SIZE_MAX:
                self._clear()
            known = self._dfa[key] = DfaState(states, previous_kind)
            self.dfa_size += len(states)
        return known

    def _clear(self) -> None:
        self._dfa: dict[tuple[frozenset[int], int], DfaState] = {}
        self.dfa_size = 0
        self._start = DfaState(frozenset({0}), BEFORE_NAME)


def previous_kind_of(code: int) -> int:
    if code in NEWLINE:
        return AFTER_NEWLINE
    return AFTER_WORD if code in WORD else AFTER_OTHER


def holds(anchor: Anchor, previous_kind: int, code: int) -> bool:
    is_boundary = (previous_kind == AFTER_WORD) != (code in WORD)
    match anchor:
        case Anchor.START:
            return previous_kind == BEFORE_NAME
        case Anchor.END:
            return code == -1
        case Anchor.LINE_START:
            return previous_kind in (BEFORE_NAME, AFTER_NEWLINE)
        case Anchor.LINE_END:
            return code == -1 or code in NEWLINE
        case Anchor.WORD_BOUNDARY:
            return is_boundary
        case Anchor.NO_WORD_BOUNDARY:
            return not is_boundary
    assert_never(anchor)
