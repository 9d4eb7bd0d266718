"""Creates the event loop of a broker: uvloop if it is installed."""

import asyncio
import sys


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415  # optional, asyncio is slower
    except ImportError:
        # The default loop of Windows, the proactor, does not support add_reader for listeners.
        windows = sys.platform == "win32"
        return asyncio.SelectorEventLoop() if windows else asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
