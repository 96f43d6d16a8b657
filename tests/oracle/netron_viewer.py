"""Netron as a reader of files: it is served from its own environment, and Chromium opens its page."""

from __future__ import annotations

import atexit
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from oracle.consumers import PATIENCE, Consumer, Feeds, Outcome
from pictures.browser import Browser, browser

#: Serves a file until its input ends; prints the page's address.
_SERVER = """
import sys, netron
host, port = netron.start(sys.argv[1], browse=False)
print(f"\\nhttp://{host}:{port}", flush=True)
sys.stdin.read()
"""
#: The body's class while the page loads; with "notification" it asks for consent first.
_STATE = """
const text = document.getElementById("message-text");
return text ? [document.body.className, text.innerText] : ["", ""];
"""
#: The words of all boxes: types of operators, names of inputs and outputs.
_WORDS = "return Array.from(document.querySelectorAll('.node-item text'), box => box.textContent)"


def _opened(page: Browser, flatbuffer: bool) -> Outcome:
    """Return what became of the file that a page was asked to show."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        state, message = page.run(_STATE)
        words = set(state.split())
        if "notification" in words and "cookies" in message:
            page.click("#message-button")
        elif "alert" in words:
            return Outcome(False, " ".join(message.split()))
        elif "default" in words:
            shown = page.run(_WORDS)
            # It shows the number of an operator whose name it does not know. In MLIR values are numbers.
            numbers = sorted({word for word in shown if word.isdigit()})
            if numbers and flatbuffer:
                return Outcome(False, f"shows operators as {', '.join(numbers)}")
            return Outcome(True)
        time.sleep(0.05)
    return Outcome(False, f"nothing is shown after {PATIENCE} s")


def netron(python: Path) -> Consumer:
    """Netron shows the operators of a file. python: the interpreter of its environment."""
    resources = ExitStack()
    atexit.register(resources.close)
    pages: list[Any] = []

    def read(file: Path, feeds: Feeds | None) -> Outcome | None:
        if not pages:
            profile = resources.enter_context(
                tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            )
            pages.append(resources.enter_context(browser(Path(profile))))
        with subprocess.Popen(
            [python, "-c", _SERVER, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout is not None
            addresses = (line.strip() for line in server.stdout if line.startswith("http"))
            address = next(addresses, "")
            if address:
                pages[0].driver.get(address)
            outcome = (
                _opened(pages[0], file.suffix in (".tosa", ".json"))
                if address
                else Outcome(False, "it does not start")
            )
            assert server.stdin is not None
            server.stdin.close()
        return outcome

    return read
