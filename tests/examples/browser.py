"""A headless Chromium for tests, controlled by the DevTools protocol over pipes."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import subprocess
import sys
import time
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT_SECONDS = 60
POLL_SECONDS = 0.05
DESCRIPTOR_MIN = 10
OPTIONS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",  # tests may run as root, and open only their own pages
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
)
# Chromium reads commands from descriptor 3 and writes responses to descriptor 4.
LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """Shows one page at a time; every command waits for its response."""

    def __init__(self, executable: str, profile: Path) -> None:
        child_in, self._out = pipe()
        self._in, child_out = pipe()
        self._log = (profile / "log").open("wb")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-S", "-c", LAUNCH, str(child_in), str(child_out)),
                *(executable, *OPTIONS, f"--user-data-dir={profile}"),
            ],
            pass_fds=(child_in, child_out),
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        os.close(child_in)
        os.close(child_out)
        self._received = b""
        self._numbers = count(1)
        self._page: dict[str, str] = {}
        self._targets: list[str] = []
        self.errors: list[str] = []
        """Exceptions and failed requests of the page."""

    def close(self) -> None:
        try:
            self.send("Browser.close", of_page=False)
            self._process.wait(WAIT_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._in)
            os.close(self._out)
            self._log.close()

    def close_pages(self) -> None:
        for target in self._targets:
            self.send("Target.closeTarget", of_page=False, targetId=target)
        self._targets.clear()
        self.errors.clear()

    def open(self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        target = self.send("Target.createTarget", of_page=False, url="about:blank")["targetId"]
        self._targets.append(target)
        session = self.send("Target.attachToTarget", of_page=False, targetId=target, flatten=True)
        self._page = {"sessionId": session["sessionId"]}
        self.send("Runtime.enable")
        self.send("Log.enable")
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        response = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in response:
            raise AssertionError(response["exceptionDetails"])
        return response["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """Waits until an expression is true and returns its value; errors count as false."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not (value := self.evaluate(f"(() => {{ try {{ return {script} }} catch {{}} }})()")):
            assert time.monotonic() < deadline, f"{script}: never true; {self.errors}"
            time.sleep(POLL_SECONDS)
        return value

    def screenshot(self) -> bytes:
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def send(self, method: str, *, of_page: bool = True, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        if of_page:
            command |= self._page
        os.write(self._out, json.dumps(command).encode() + b"\0")
        for message in self._messages():
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self._record(message)
        raise AssertionError(f"{method}: the browser has exited")

    def _record(self, event: dict[str, Any]) -> None:
        match event:
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                self.errors.append(str(details.get("exception", details)))
            case {"method": "Log.entryAdded", "params": {"entry": {"level": "error"} as entry}}:
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" not in self._received:
                ready, _, _ = select.select([self._in], [], [], WAIT_SECONDS)
                assert ready, "the browser does not respond"
                more = os.read(self._in, 1 << 20)
                if not more:
                    return
                self._received += more
            message, _, self._received = self._received.partition(b"\0")
            yield json.loads(message)


def pipe() -> tuple[int, int]:
    """Returns a pipe whose descriptors are not 3 or 4."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
