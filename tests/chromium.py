"""A page in real Chromium, driven by its DevTools protocol over two pipes: real keys, widths, settings and errors."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: Without a display, and without what asks the network.
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--hide-scrollbars",
)  # fmt: skip

#: Seconds that an answer may take; only a failure takes so long.
PATIENCE = 60.0
#: Puts two pipes at 3 and 4, of which the second is above 3, and becomes another program.
PLACED = "import os, sys; _, read, write, *more = sys.argv; "
PLACED += "os.dup2(int(read), 3); os.dup2(int(write), 4); os.execvp(more[0], more)"


class Browser:
    """Chromium with one page; a context manager. `errors` has what the page has told of errors since it was opened."""

    def __init__(self, profile: Path) -> None:
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        # Chromium reads commands from 3 and writes to 4.
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", PLACED, str(read), str(write), *command],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._rest, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a command; events that come before it are checked for errors."""
        self._number += 1
        said = {"id": self._number, "method": method, "params": parameters}
        os.write(self._to, json.dumps(said | ({"sessionId": self._session} if self._session else {})).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])

    def open(self, address: str, width: int, *, dark: bool = False) -> None:
        """Open an address in a window of this width, on a system that prefers light or dark pages."""
        self.errors.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        while self.value("document.readyState + location.protocol") not in ("completefile:", "completehttp:"):
            pass

    def picture(self, path: Path) -> None:
        """Save the whole page as a PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True, fromSurface=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def value(self, expression: str) -> Any:
        """Return the value of an expression, or of the promise that it is."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], PATIENCE)
            piece = os.read(self._from, 1 << 16) if ready else b""
            assert piece, "the browser has ended, or says nothing"
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        event, told = message.get("method"), message.get("params", {})
        if event == "Runtime.exceptionThrown":
            self.errors.append(told["exceptionDetails"]["text"])
        elif event == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.errors.append(str(told["args"]))
        elif event == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.errors.append(told["entry"]["text"])
        return message
