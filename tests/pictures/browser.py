"""A headless Chromium for tests of the report: what it logs, and what it requests."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--force-device-scale-factor=1", "--window-size=1400,900", "about:blank"),
)


def missing() -> str:
    """Why there is no browser, or ""."""
    if CHROMIUM is None or DRIVER is None:
        return "chromium and chromedriver are not installed (Debian: chromium, chromium-driver)"
    try:
        import selenium
    except ImportError as error:
        return str(error)
    return "" if selenium else "no selenium"


class Browser:
    """A browser with one page."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, address: str = "") -> None:
        """Open a file, and forget what was logged before."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(page.as_uri() + address)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        return str(self.driver.find_element("css selector", selector).text)

    def type(self, selector: str, keys: str) -> None:
        self.driver.find_element("css selector", selector).send_keys(keys)

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def size(self) -> tuple[int, int]:
        """Width and height of the canvas."""
        size = self.driver.find_element("id", "graph").size
        return size["width"], size["height"]

    def click_at(self, x: int, y: int) -> None:
        """Click a point of the canvas, relative to its upper left corner."""
        from selenium.webdriver import ActionChains

        canvas = self.driver.find_element("id", "graph")
        actions = ActionChains(self.driver)
        width, height = self.size()
        left, top = x - width // 2, y - height // 2
        actions.move_to_element_with_offset(canvas, left, top).click().perform()

    def press(self, keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(keys).perform()

    def pixels(self) -> int:
        """Return how many different colours the canvas shows."""
        script = """
            const graph = document.getElementById("graph"), { width, height } = graph;
            const copy = Object.assign(document.createElement("canvas"), { width, height });
            const context = copy.getContext("2d", { willReadFrequently: true });
            context.drawImage(graph, 0, 0);
            const bytes = context.getImageData(0, 0, width, height).data;
            return new Set(new Uint32Array(bytes.buffer)).size;
        """
        return int(self.run(script))

    def errors(self) -> list[str]:
        """Return messages of the console since the page was opened."""
        return [row["message"] for row in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that the page requested since it was opened, its own included."""
        found = []
        for row in self.driver.get_log("performance"):
            message = json.loads(row["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found


@contextmanager
def browser(profile: Path, *, dark: bool = False) -> Iterator[Browser]:
    """Yield a browser that is closed at the end. profile: a new folder for its files."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    assert CHROMIUM is not None
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Selenium asks a server for a driver unless it knows one.
    os.environ.setdefault("SE_OFFLINE", "true")
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        if dark:
            scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        yield Browser(driver)
    finally:
        driver.quit()
