"""Declares messages: each field once, with the versions that contain it.

    class HeartbeatRequest(Message, api=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
        group_id: str = string("0+")
        generation_id: int = int32("0+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None)

A declaration contains no code. `compiler` generates fast readers and writers from it, and `explain`
a slower parser that reports the first malformed byte of a frame.
A message is a value: a type checker rejects assignments to its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, dataclass_transform

ZERO_UUID = bytes(16)


class Versions(NamedTuple):
    """A closed range of versions; empty if `first > last`."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NO_VERSIONS = Versions(0, -1)
VERSION_MAX = 32767


def parse_versions(text: str) -> Versions:
    """Parses `3`, `0-4`, `2+` or `none`."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


class Kind(NamedTuple):
    """A primitive type: its name, its default and, if its size is fixed, its `struct` letter."""

    name: str
    letter: str
    zero: Any


INT8 = Kind("int8", "b", 0)
INT16 = Kind("int16", "h", 0)
UINT16 = Kind("uint16", "H", 0)
INT32 = Kind("int32", "i", 0)
UINT32 = Kind("uint32", "I", 0)
INT64 = Kind("int64", "q", 0)
FLOAT64 = Kind("float64", "d", 0.0)
BOOLEAN = Kind("bool", "?", False)
UUID = Kind("uuid", "16s", ZERO_UUID)
STRING = Kind("string", "", "")
BYTES = Kind("bytes", "", b"")
RECORDS = Kind("records", "", None)


class Field:
    """One field of a message: its type and the versions that contain it."""

    __slots__ = (
        "default",
        "ignorable",
        "is_array",
        "kind",
        "name",
        "never_compact",
        "nullable",
        "struct",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self,
        kind: Kind | None,
        versions: str,
        *,
        struct: type[Message] | None = None,
        is_array: bool = False,
        nullable: str = "none",
        tag: int | None = None,
        tagged: str | None = None,
        default: Any = ...,
        ignorable: bool = False,
        never_compact: bool = False,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.struct = struct
        self.is_array = is_array
        self.versions = parse_versions(versions)
        self.nullable = parse_versions(nullable)
        self.tag = tag
        self.tagged = parse_versions(tagged or versions) if tag is not None else NO_VERSIONS
        self.default = self.zero() if default is ... else default
        self.ignorable = ignorable
        self.never_compact = never_compact

    def zero(self) -> Any:
        """Returns the value of a field that is not sent and declares no default."""
        if self.is_array:
            return ()
        if self.kind is not None:
            return self.kind.zero
        assert self.struct is not None
        return self.struct()

    def is_untagged_in(self, version: int) -> bool:
        """Returns whether a version sends the field in sequence, not as a tagged field."""
        return version in self.versions and version not in self.tagged


# The field specifiers below return `Any`, so that type checkers use the annotation of the field.
# dataclass_transform treats a field as optional only if the call contains `default`.


def int8(versions: str, *, default: int = 0, ignorable: bool = False, **more: Any) -> Any:
    return Field(INT8, versions, default=default, ignorable=ignorable, **more)


def int16(versions: str, *, default: int = 0, ignorable: bool = False, **more: Any) -> Any:
    return Field(INT16, versions, default=default, ignorable=ignorable, **more)


def uint16(versions: str, *, default: int = 0, ignorable: bool = False, **more: Any) -> Any:
    return Field(UINT16, versions, default=default, ignorable=ignorable, **more)


def int32(versions: str, *, default: int = 0, ignorable: bool = False, **more: Any) -> Any:
    return Field(INT32, versions, default=default, ignorable=ignorable, **more)


def uint32(versions: str, *, default: int = 0, ignorable: bool = False, **more: Any) -> Any:
    return Field(UINT32, versions, default=default, ignorable=ignorable, **more)


def int64(versions: str, *, default: int = 0, ignorable: bool = False, **more: Any) -> Any:
    return Field(INT64, versions, default=default, ignorable=ignorable, **more)


def float64(versions: str, *, default: float = 0.0, ignorable: bool = False, **more: Any) -> Any:
    return Field(FLOAT64, versions, default=default, ignorable=ignorable, **more)


def boolean(versions: str, *, default: bool = False, ignorable: bool = False, **more: Any) -> Any:
    return Field(BOOLEAN, versions, default=default, ignorable=ignorable, **more)


def uuid(versions: str, *, default: bytes = ZERO_UUID, ignorable: bool = False, **more: Any) -> Any:
    return Field(UUID, versions, default=default, ignorable=ignorable, **more)


def string(versions: str, *, default: str | None = "", nullable: str = "none", **more: Any) -> Any:
    return Field(STRING, versions, default=default, nullable=nullable, **more)


def octets(
    versions: str, *, default: bytes | None = b"", nullable: str = "none", **more: Any
) -> Any:
    return Field(BYTES, versions, default=default, nullable=nullable, **more)


def record_batches(
    versions: str, *, default: None = None, nullable: str = "none", **more: Any
) -> Any:
    """Record batches: bytes that the codec does not decode."""
    return Field(RECORDS, versions, default=default, nullable=nullable, **more)


def array(
    of: type[Message] | Kind,
    versions: str,
    *,
    default: tuple[Any, ...] | None = (),
    nullable: str = "none",
    **more: Any,
) -> Any:
    kind, struct = (of, None) if isinstance(of, Kind) else (None, of)
    return Field(
        kind, versions, struct=struct, is_array=True, default=default, nullable=nullable, **more
    )


def nested(
    of: type[Message], versions: str, *, default: Any = ..., nullable: str = "none", **more: Any
) -> Any:
    return Field(None, versions, struct=of, default=default, nullable=nullable, **more)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        int8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float64,
        boolean,
        uuid,
        string,
        octets,
        record_batches,
        array,
        nested,
    ),
)
class MessageType(type):
    """Replaces the declared fields of a class by slots and a keyword-only constructor."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        **declared: Any,
    ) -> MessageType:
        fields = tuple(with_name(key, it) for key, it in namespace.items() if isinstance(it, Field))
        for field in fields:
            del namespace[field.name]
        slots = tuple(field.name for field in fields)
        namespace["__slots__"] = (*slots, "unknown_tags") if bases else ()
        namespace["fields"] = fields
        namespace["defaults"] = {field.name: field.default for field in fields}
        namespace.update(parse_keywords(declared))
        return super().__new__(cls, name, bases, namespace)

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any
    ) -> None:
        super().__init__(name, bases, namespace)


def with_name(name: str, field: Field) -> Field:
    field.name = name
    return field


def parse_keywords(declared: dict[str, Any]) -> dict[str, Any]:
    """Returns the keywords of a class statement with version ranges parsed."""
    parsed = dict(declared)
    for key in ("versions", "flexible"):
        if key in parsed:
            parsed[key] = parse_versions(parsed[key])
    return parsed


class Message(metaclass=MessageType):
    """A request, a response, a stored record, or a struct inside one."""

    fields: ClassVar[tuple[Field, ...]]
    defaults: ClassVar[dict[str, Any]]
    versions: ClassVar[Versions] = NO_VERSIONS
    flexible: ClassVar[Versions] = NO_VERSIONS
    api: ClassVar[int] = -1
    record_type: ClassVar[int] = -1
    latest_unstable: ClassVar[bool] = False
    """The newest version is declared but not served, because Apache Kafka may still change it."""

    if TYPE_CHECKING:
        unknown_tags: ClassVar[tuple[tuple[int, bytes], ...]]

    def __init__(self, **values: Any) -> None:
        # Compiled at first use: one process instantiates only a few of the declared classes.
        compile_constructor(type(self))
        self.__init__(**values)  # type: ignore[misc]  # the compiled constructor

    def replace(self, **values: Any) -> Self:
        """Returns a copy with some fields changed."""
        # Compiled at first use, like the constructor.
        compile_copy(type(self))
        return self.replace(**values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self.unknown_tags == other.unknown_tags and all(
            same_value(getattr(self, name), getattr(other, name)) for name in self.defaults
        )

    __hash__ = None  # type: ignore[assignment]  # holds sequences

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.defaults)
        tags = f", unknown_tags={self.unknown_tags!r}" if self.unknown_tags else ""
        return f"{type(self).__name__}({values}{tags})"


def compile_constructor(message: type[Message]) -> None:
    """Generates the keyword-only constructor of a class from its fields."""
    parameters = ", ".join(f"{name}=default_{name}" for name in message.defaults)
    stores = "\n".join(f"    self.{name} = {name}" for name in message.defaults)
    source = (
        f"def __init__(self, *, {parameters}{', ' if parameters else ''}unknown_tags=()):\n"
        f"{stores}\n    self.unknown_tags = unknown_tags\n"
    )
    namespace = {f"default_{name}": value for name, value in message.defaults.items()}
    exec(source, namespace)  # noqa: S102  # the source contains only declared names
    message.__init__ = namespace["__init__"]  # type: ignore[method-assign]  # as dataclasses do


def compile_copy(message: type[Message]) -> None:
    """Generates `replace` of a class; slots make it reject names of unknown fields."""
    copies = "\n".join(
        f"    copy.{name} = self.{name}" for name in (*message.defaults, "unknown_tags")
    )
    source = (
        f"def replace(self, **values):\n    copy = new(message)\n{copies}\n"
        "    for name, value in values.items():\n        setattr(copy, name, value)\n"
        "    return copy\n"
    )
    namespace: dict[str, Any] = {"new": message.__new__, "message": message}
    exec(source, namespace)  # noqa: S102  # the source contains only declared names
    message.replace = namespace["replace"]  # type: ignore[method-assign]  # one per class


def same_value(left: Any, right: Any) -> bool:
    """Compares two values; a list equals a tuple with the same elements."""
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same_value, left, right))
    return bool(left == right)
