"""Creates faults from JSON: the field 'fault' is a method of `Faults`, the others its arguments."""

from __future__ import annotations

import re
from inspect import Parameter, getdoc, signature
from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.control.arguments import as_count, as_seconds, as_text, read_argument
from pykbroker.testing.control.http import HttpError
from pykbroker.testing.faults import Faults, FaultScope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.testing.active_fault import ActiveFault
    from pykbroker.testing.control.arguments import Read

KIND: Final = "fault"
"""The field with the kind of the fault."""


def new_fault(faults: Faults, document: Mapping[str, Any]) -> ActiveFault:
    """Sets a fault. Raises HttpError for an unknown kind or invalid arguments."""
    kind = document.get(KIND)
    if kind not in FAULT_KINDS:
        raise HttpError(400, f"unknown fault {kind!r}; known faults: {', '.join(FAULT_KINDS)}")
    known = parameters_of(kind)
    if unknown := sorted(set(document) - {KIND, *known}):
        fields = f"{', '.join(unknown)}; {kind} takes {', '.join(known)}"
        raise HttpError(400, f"unknown arguments: {fields}")
    arguments = {
        name: read_argument(name, read, document[name])
        for name, read in known.items()
        if document.get(name) is not None
    }
    if "api" in known:
        arguments.setdefault("api", None)
    try:
        fault: ActiveFault = getattr(faults, kind)(**arguments)
    except (TypeError, ValueError) as reason:
        text = re.sub(r"^\w+\.(?=\w+\(\))", "", str(reason))  # without the name of the class
        raise HttpError(400, text) from None
    return fault


def fault_kinds() -> list[str]:
    """The public methods of `Faults` that return a fault."""
    return [
        name
        for part in Faults.__mro__[:-1]
        for name, method in vars(part).items()
        if not name.startswith("_")
        and callable(method)
        and "None" not in str(signature(method).return_annotation)
    ]


FAULT_KINDS: Final = tuple(fault_kinds())


def parameters_of(kind: str) -> dict[str, Read]:
    """The validator of each argument of a fault."""
    found: dict[str, Read] = {}
    for parameter in list(signature(getattr(Faults, kind)).parameters.values())[1:]:
        if parameter.kind is Parameter.VAR_KEYWORD:
            found |= {name: reader_for(it) for name, it in FaultScope.__annotations__.items()}
        else:
            found[parameter.name] = reader_for(parameter.annotation)
    return found


def described() -> list[dict[str, Any]]:
    """All kinds of faults with a description and their arguments."""
    return [
        {
            KIND: kind,
            "does": (getdoc(getattr(Faults, kind)) or "").partition("\n")[0],
            "takes": list(parameters_of(kind)),
        }
        for kind in FAULT_KINDS
    ]


def reader_for(annotation: Any) -> Read:
    text = getattr(annotation, "__forward_arg__", None) or str(annotation)
    if "float" in text:
        return as_seconds
    return as_count if "int" in text else as_text
