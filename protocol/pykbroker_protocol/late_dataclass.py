"""Dataclasses whose methods are generated when the first instance is created.

`dataclasses` generates and compiles six methods for each class at import. That takes half a
millisecond per class and a fifth of the start of a broker, which instantiates only few of these
classes. Here a class gets its slots at import; `dataclasses` adds the methods at the first
instantiation. Type checkers see the standard decorator. The options `eq`, `repr`, `order` and
`unsafe_hash` are not supported: comparison and `repr` use all fields.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass, field

    AnyClass = Any  # a class whose attributes are assigned dynamically
__all__ = ["dataclass", "field"]


class LateField:
    """The options of one `field(...)`, kept until the methods of the class are generated."""

    __slots__ = ("options",)

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def to_dataclass_field(self) -> Any:
        """Returns the equivalent field of `dataclasses`."""
        import dataclasses  # noqa: PLC0415 - a start may not need it

        options = dict(self.options)
        if "default" in options and not options.get("init", True):
            # dataclasses would use a class attribute, which a class with slots cannot have.
            default = options.pop("default")
            options["default_factory"] = lambda: default
        return dataclasses.field(**options)


def declare(cls: AnyClass, options: dict[str, Any]) -> AnyClass:
    """Returns the class with slots for its fields and a constructor that generates the methods."""
    names = [name for name, kind in cls.__annotations__.items() if is_field(kind)]
    namespace = {key: value for key, value in vars(cls).items() if key not in NOT_COPIED}
    defaults = {name: namespace.pop(name) for name in names if name in namespace}
    if options.pop("slots", False):
        namespace["__slots__"] = tuple(names)
    namespace.setdefault("__doc__", f"{cls.__name__}.")  # dataclasses would generate a signature
    namespace["__init__"] = generate_methods_and_init
    declared: AnyClass = type(cls)(cls.__name__, cls.__bases__, namespace)
    INCOMPLETE[declared] = defaults, options
    return declared


NOT_COPIED = frozenset({"__dict__", "__weakref__"})
INCOMPLETE: dict[AnyClass, tuple[dict[str, Any], dict[str, Any]]] = {}
"""Classes without generated methods: the defaults of their fields and the decorator's options."""


def is_field(annotation: object) -> bool:
    return not str(annotation).startswith(("ClassVar", "KW_ONLY"))


def generate_methods_and_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """The first constructor of a class; it replaces itself, also in the base classes."""
    for cls in reversed(type(self).__mro__):
        if cls in INCOMPLETE:
            generate_methods(cls, *INCOMPLETE.pop(cls))
    type(self).__init__(self, *args, **kwargs)


def generate_methods(cls: AnyClass, defaults: dict[str, Any], options: dict[str, Any]) -> None:
    """Applies `dataclasses` to the class; slots are replaced by the defaults meanwhile."""
    import dataclasses  # noqa: PLC0415 - as above

    slots = {name: vars(cls)[name] for name in defaults if name in vars(cls)}
    del cls.__init__
    for name, value in defaults.items():
        default = value.to_dataclass_field() if isinstance(value, LateField) else value
        setattr(cls, name, default)
    dataclasses.dataclass(cls, **options, repr=False, eq=False)
    for name, slot in slots.items():
        setattr(cls, name, slot)
    names = [it.name for it in dataclasses.fields(cls)]
    cls.__eq__, cls.__repr__ = eq_method(names), repr_method(names)
    cls.__hash__ = hash_method(names) if options.get("frozen") else None


def eq_method(names: Sequence[str]) -> Callable[[object, object], bool]:
    """Returns a closure: unlike `dataclasses`, nothing is compiled for each class."""
    values = attrgetter(*names)

    def equal(self: object, other: object) -> bool:
        return (
            values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
        )

    return equal


def hash_method(names: Sequence[str]) -> Callable[[object], int]:
    values = attrgetter(*names)
    return lambda self: hash(values(self))


def repr_method(names: Sequence[str]) -> Callable[[object], str]:
    def represent(self: object) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({fields})"

    return represent


if not TYPE_CHECKING:

    def dataclass(cls: AnyClass = None, /, **options: Any) -> Any:
        """`@dataclass` or `@dataclass(frozen=True, ...)`."""
        if cls is None:
            return lambda decorated: declare(decorated, options)
        return declare(cls, options)

    def field(**options: Any) -> Any:
        return LateField(options)
