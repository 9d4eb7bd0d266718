"""The error for a tool that is missing on this machine or cannot be installed."""

import shutil


class MissingToolError(RuntimeError):
    """`tool` is not installed or failed to install; the message names the cause.

    The test suite skips a test that raises this error, and fails it in CI (tests/conftest.py).
    """

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(reason)
        self.tool = tool


def find_program(*names: str) -> str:
    """Returns the path of the first of these programs that is on the PATH."""
    for name in names:
        if path := shutil.which(name):
            return path
    raise MissingToolError(names[0], f"`{names[0]}` is not on the PATH")
