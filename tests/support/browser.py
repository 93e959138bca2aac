"""Debian's Chromium, driven by Playwright: pages of the console as a person sees and uses them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.documents import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

_HANGS = 60.0
"""Seconds; pages change within one."""
IMAGES = ROOT / "docs" / "images"
_RULES = """
async () => {
  const found = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]});
  return found.violations.map((one) => one.id + ": " + one.nodes.map((node) => node.html.slice(0, 200)).join(" | "));
}
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", action="store_true", help="write the screenshots of the docs")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser of a module's tests. Playwright keeps an event loop in the main thread until its end."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed: `make test-programs` installs it as root on Debian")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()


@pytest.fixture
def screenshot(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Writes `<name>.png` of a page into the docs, with `--screenshots` only."""

    def write(page: Page, name: str) -> None:
        if request.config.option.screenshots:
            IMAGES.mkdir(exist_ok=True)
            page.screenshot(path=IMAGES / f"{name}.png", animations="disabled", caret="hide")

    return write


@contextmanager
def opened(
    browser: Browser, address: str, *, scheme: str = "light", expected: str = "\n", issuer: str = ""
) -> Iterator[Page]:
    """Yields a page at the address. Fails at its end if the page logged an error or sent a request to another server.

    Args:
        browser: The browser.
        address: The address of the page.
        scheme: `light` or `dark`.
        expected: A part of the errors that the test causes.
        issuer: The URL of an issuer that the page may lead to, whose certificate is not checked.
    """
    errors: list[str] = []
    servers = {urlsplit(url).netloc for url in (address, issuer) if url}

    def check(request: Request) -> None:
        if urlsplit(request.url).netloc not in servers:
            errors.append(f"request to {request.url}")

    context = browser.new_context(
        viewport={"width": 1280, "height": 720}, color_scheme=scheme, ignore_https_errors=bool(issuer)
    )
    context.set_default_timeout(_HANGS * 1000)
    page = context.new_page()
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", check)
    try:
        page.goto(address)
        yield page
        assert [error for error in errors if expected not in error] == []
    finally:
        context.close()


def barriers(page: Page) -> list[str]:
    """Returns the findings of axe-core, such as texts with too little contrast and controls without names."""
    page.evaluate(_axe())  # by the driver, because the policy of the page allows no foreign script
    found: list[str] = page.evaluate(_RULES)
    return found


@cache
def _axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()
