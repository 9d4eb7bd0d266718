"""Dataclasses whose methods are written when the first instance is made.

`dataclasses` writes and compiles half a dozen methods for each class while its module is imported:
half a millisecond a class, a fifth of a broker's whole start, and a start makes few instances of
few of them. Here a class gets its slots at once and the rest, by `dataclasses` itself, at its first
call. A type checker sees the ordinary decorator. `eq`, `repr`, `order` and `hash` are not to be
chosen: all fields are compared and shown.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass, field

    AnyClass = Any  # a type checker would ask what each class can do
__all__ = ["dataclass", "field"]


class LateField:
    """What a class says of one of its fields, for the time when it is completed."""

    __slots__ = ("options",)

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def declared(self) -> Any:
        """The same for `dataclasses`, which knows of no slots."""
        import dataclasses  # noqa: PLC0415 - a start may come by without it

        options = dict(self.options)
        if "default" in options and not options.get("init", True):
            default = options.pop("default")
            options["default_factory"] = lambda: default  # else it would be left to the class
        return dataclasses.field(**options)


def declare(cls: AnyClass, options: dict[str, Any]) -> AnyClass:
    """The class with slots for its fields; its first call will complete it."""
    names = [name for name, kind in cls.__annotations__.items() if is_field(kind)]
    namespace = {key: value for key, value in vars(cls).items() if key not in NOT_COPIED}
    defaults = {name: namespace.pop(name) for name in names if name in namespace}
    if options.pop("slots", False):
        namespace["__slots__"] = tuple(names)
    namespace.setdefault("__doc__", f"{cls.__name__}.")  # else a signature is drawn for it
    namespace["__init__"] = complete_and_begin
    declared: AnyClass = type(cls)(cls.__name__, cls.__bases__, namespace)
    INCOMPLETE[declared] = defaults, options
    return declared


NOT_COPIED = frozenset({"__dict__", "__weakref__"})
INCOMPLETE: dict[AnyClass, tuple[dict[str, Any], dict[str, Any]]] = {}
"""The defaults of the fields, and what the decorator was given."""


def is_field(annotation: object) -> bool:
    return not str(annotation).startswith(("ClassVar", "KW_ONLY"))


def complete_and_begin(self: Any, *given: Any, **named: Any) -> None:
    """The constructor of a class that has no other yet."""
    for cls in reversed(type(self).__mro__):
        if cls in INCOMPLETE:
            complete(cls, *INCOMPLETE.pop(cls))
    type(self).__init__(self, *given, **named)


def complete(cls: AnyClass, defaults: dict[str, Any], options: dict[str, Any]) -> None:
    """Let `dataclasses` write the methods; the slots stand aside while it reads the defaults."""
    import dataclasses  # noqa: PLC0415 - as above

    slots = {name: vars(cls)[name] for name in defaults if name in vars(cls)}
    del cls.__init__
    for name, value in defaults.items():
        setattr(cls, name, value.declared() if isinstance(value, LateField) else value)
    dataclasses.dataclass(cls, **options, repr=False, eq=False)
    for name, slot in slots.items():
        setattr(cls, name, slot)
    names = [it.name for it in dataclasses.fields(cls)]
    cls.__eq__, cls.__repr__ = comparison(names), description(names)
    cls.__hash__ = hashing(names) if options.get("frozen") else None


def comparison(names: Sequence[str]) -> Callable[[object, object], bool]:
    """Not written and compiled for each class, as by `dataclasses`: few are ever compared."""
    values = attrgetter(*names)

    def equal(self: object, other: object) -> bool:
        return (
            values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
        )

    return equal


def hashing(names: Sequence[str]) -> Callable[[object], int]:
    values = attrgetter(*names)
    return lambda self: hash(values(self))


def description(names: Sequence[str]) -> Callable[[object], str]:
    def described(self: object) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({fields})"

    return described


if not TYPE_CHECKING:

    def dataclass(cls: AnyClass = None, /, **options: Any) -> Any:
        """`@dataclass` or `@dataclass(frozen=True, ...)`."""
        if cls is None:
            return lambda decorated: declare(decorated, options)
        return declare(cls, options)

    def field(**options: Any) -> Any:
        return LateField(options)
