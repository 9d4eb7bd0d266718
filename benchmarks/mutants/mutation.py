"""All mutations of a source file: each changes one comparison, condition, constant or call."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
LOGGERS = frozenset({"logger", "_logger", "logging"})
"""Calls of these are kept, and `assert_never`, which serves the type checker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A piece of a source file and its replacement."""

    line: int
    start: int
    end: int
    """Positions in the UTF-8 bytes of the source."""
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{shortened(self.before)}  ->  {shortened(self.after)}"


def shortened(text: str, limit: int = 70) -> str:
    words = " ".join(text.split())
    return words if len(words) <= limit else words[:limit] + "…"


def mutations_of(source: bytes) -> list[Mutation]:
    """Yields mutations in source order; a node can have several."""
    lines = source.split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found = []
    for node, changed in _Candidates().of(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = source[start:end].decode()
        found.append(Mutation(line=node.lineno, start=start, end=end, before=before, after=changed))
    return found


class _Candidates:
    """Visits the parts of a module that affect its behaviour."""

    def of(self, node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
        for child in self._children(node):
            if not _is_ignored(child):
                yield from self._changes(child)
                yield from self.of(child)

    def _children(self, node: ast.AST) -> Iterator[ast.AST]:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "msg"):
                continue
            parts = value if isinstance(value, list) else [value]
            yield from (it for it in parts if isinstance(it, ast.AST))

    def _changes(self, node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
        match node:
            case ast.Compare():
                yield from ((node, changed) for changed in _compared(node))
            case ast.BoolOp():
                op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield node, _text(ast.BoolOp(op, node.values))
            case ast.UnaryOp(op=ast.Not()):
                yield node, _text(node.operand)
            case ast.BinOp() if type(node.op) in ARITHMETIC and not _is_of_sequences(node):
                yield node, _text(ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))
            case ast.Constant(value=bool()):
                yield node, str(not node.value)
            case ast.Constant(value=int(number)):
                yield node, str(number + 1)
            case ast.If() | ast.While() | ast.IfExp() if not isinstance(
                node.test, ast.Compare | ast.BoolOp | ast.UnaryOp
            ):
                yield node.test, f"(not {_text(node.test)})"
            case ast.Expr(value=ast.Call() | ast.Await()) if not _is_ignored_call(node.value):
                yield node, "pass"


def _compared(node: ast.Compare) -> Iterator[str]:
    for index, op in enumerate(node.ops):
        ops = [*node.ops[:index], COMPARISONS[type(op)](), *node.ops[index + 1 :]]
        yield _text(ast.Compare(node.left, ops, node.comparators))


def _text(node: ast.expr) -> str:
    """Adds parentheses, so that the replacement is valid in any expression."""
    return f"({ast.unparse(node)})"


def _is_ignored(node: ast.AST) -> bool:
    """Returns whether this is a type-checking import, a log call or an assertion."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.JoinedStr():
            return True
        case ast.Expr():
            return _is_ignored_call(node.value)
    return False


def _is_ignored_call(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name in LOGGERS
        case ast.Call(func=ast.Name(id=name)):
            return name == "assert_never"
    return False


def _is_of_sequences(node: ast.BinOp) -> bool:
    return any(_is_sequence(it) for it in (node.left, node.right))


def _is_sequence(node: ast.expr) -> bool:
    """Additions of sequences are not mutated, because a subtraction always fails."""
    match node:
        case ast.Constant(value=str() | bytes()):
            return True
        case ast.JoinedStr() | ast.List() | ast.Tuple() | ast.ListComp():
            return True
    return False
