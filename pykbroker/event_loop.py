"""The event loop that a broker runs on: uvloop where there is one."""

import asyncio
import sys


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415  # a platform without it is served more slowly
    except ImportError:
        # Windows' own default waits for completions, and cannot tell that somebody knocks.
        windows = sys.platform == "win32"
        return asyncio.SelectorEventLoop() if windows else asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
