"""Chromium: tabs that record the browser's complaints, and a check of a page's accessibility."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM: Final = Path("/usr/bin/chromium")  # Debian's Chromium; Playwright would download its own
AXE: Final = Path(__file__).parent / "vendor" / "axe-core-4.14.1" / "axe.min.js"
SCHEMES: Final = ("light", "dark")
SERIOUS: Final = ("serious", "critical")
TIMEOUT_MS: Final = 60_000


@contextmanager
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Tab:
    """A browser tab with its complaints: console errors, violations of the content security policy, failed requests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, address: str) -> None:
        self.page.goto(address, wait_until="load")

    def accessibility_problems(self) -> list[str]:
        """Return the serious and critical accessibility problems that axe finds."""
        # axe is evaluated through the debugger, to which the page's content security policy does not apply.
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run()")
        return [
            f"{violation['id']}: {violation['help']}: {node['html']}"
            for violation in found["violations"]
            if violation["impact"] in SERIOUS
            for node in violation["nodes"]
        ]


@contextmanager
def open_tab(browser: Browser, scheme: str = "light", **settings: Any) -> Iterator[Tab]:
    """Open a tab in a new context, with the colour scheme `light` or `dark`."""
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": 1280, "height": 800}, **settings
    )
    context.set_default_timeout(TIMEOUT_MS)
    try:
        yield Tab(context.new_page())
    finally:
        context.close()
