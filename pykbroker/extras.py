"""Messages for packages that only an extra of PyKBroker installs."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """The only place in the code that names a command: no package is published yet."""
    return f"pip install '.[{extra}]' in a checkout of PyKBroker (docs/installation.md)"


def missing_extra(missing: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Returns the error with the command that installs the extra.

    The failed import of a module of PyKBroker itself is returned as it is.
    """
    if missing.name is None or missing.name.startswith("pykbroker"):
        return missing
    return ModuleNotFoundError(
        f"{missing.name} is not installed: {how_to_install(extra)}", name=missing.name
    )
