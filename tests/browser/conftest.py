import os
import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.e2e.processes import Gateway, running_gateway

# Chromium asks the world for updates and lists at every start; a test machine may have no way there.
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium, or the one that GATEWAY_CHROMIUM names; without one tests fail: `make test` installs it."""
    path = os.environ.get("GATEWAY_CHROMIUM") or shutil.which("chromium")
    assert path, "Chromium is not installed: apt-get install chromium, or set GATEWAY_CHROMIUM"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        await browser.close()


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """Give a page on which every error of its own fails the test."""
    errors: list[str] = []
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    assert errors == []


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as gateway:
        yield gateway
