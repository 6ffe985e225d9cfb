"""The product's page in a browser: people type and press in it, and every board changes where it stands.

Headless Chromium without a network of its own. The page is loaded once; a mark in its window proves that it stays so.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, async_playwright, expect

from tests.system.product import Product

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
WAIT_MS = 60_000
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest_asyncio.fixture
async def page(product: Product) -> AsyncIterator[Page]:
    """The page, open and live; an error in its console or its scripts, or a second load, fails the test."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found, "no Chromium on the path: `make browser` installs it or says how"
    expect.set_options(timeout=WAIT_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=FLAGS, timeout=WAIT_MS)
        opened = await browser.new_page(viewport={"width": 1500, "height": 900})
        opened.set_default_timeout(WAIT_MS)
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        await opened.goto(product.url)
        await expect(opened.get_by_test_id("connection")).to_have_text("live")
        await opened.evaluate("window.loadedOnce = true")
        yield opened
        assert await opened.evaluate("window.loadedOnce") is True, "the page was loaded again"
        await browser.close()
        assert errors == []


@asynccontextmanager
async def pictured(page: Page, directory: Path) -> AsyncIterator[None]:
    """When the block fails, what the page showed is in the test's directory."""
    try:
        yield
    except BaseException as error:
        picture = directory / "page.png"
        await page.screenshot(path=picture, full_page=True, timeout=WAIT_MS)
        error.add_note(f"the page is pictured in {picture}")
        raise


async def open_group(column: Locator) -> None:
    await column.locator('[data-testid="chat"][data-chat^="-"]').click()


async def open_private_chat(column: Locator) -> None:
    await column.locator('[data-testid="chat"]:not([data-chat^="-"])').click()


async def write(column: Locator, text: str) -> None:
    await column.get_by_test_id("composer").fill(text)
    await column.get_by_test_id("composer").press("Enter")


def bubble(column: Locator, message_id: str) -> Locator:
    """The message with this id in the chat that is open in the column."""
    return column.locator(f'[data-message-id="{message_id}"]')


async def board_id(column: Locator, *parts: str) -> str:
    """The id of the newest message with all the parts."""
    found = column.get_by_test_id("message")
    for part in parts:
        found = found.filter(has_text=part)
    await expect(found.last).to_be_visible()
    shown = await found.last.get_attribute("data-message-id")
    assert shown
    return shown


async def tap(column: Locator, message_id: str, code: str) -> None:
    """Press the composer's buttons one after the other, each when the one before has been taken in."""
    composer = bubble(column, message_id)
    for count, token in enumerate(code, 1):
        await composer.get_by_test_id("inline-button").filter(has_text=token).click()
        await expect(composer).to_contain_text(f"✅ {count}/{len(code)}")
    await composer.get_by_test_id("inline-button").filter(has_text="✅").click()


async def test_one_types_another_presses_and_both_boards_change(page: Page, tmp_path: Path) -> None:
    ada, boris, chen = (
        page.locator(f'[data-testid="person"][aria-label="{name}"]') for name in ("Ada", "Boris", "Chen")
    )
    async with pictured(page, tmp_path):
        for column in (ada, boris, chen):
            await open_group(column)
        await write(ada, "/play classic")
        board = await board_id(boris, "Classic · race", "No guess yet")
        palette = next(line for line in (await bubble(boris, board).inner_text()).splitlines() if "🎨" in line)
        tokens = palette.replace("🎨", "").strip()
        assert len(tokens) == 12
        await bubble(boris, board).get_by_test_id("link-button").click()
        composer = await board_id(boris, "Your guess for \u2068Codebreakers\u2069")

        await write(ada, tokens[:6])
        for column in (ada, chen):
            await expect(bubble(column, board)).to_contain_text(
                re.compile(rf"\u2068Ada\u2069 1: {tokens[:6]} \d+ ●\d ○\d")
            )
        await tap(boris, composer, tokens[6:])
        await expect(boris.get_by_test_id("toast")).to_have_text("Guess 1 is in!")
        for column in (ada, chen):
            await expect(bubble(column, board)).to_contain_text(
                re.compile(rf"\u2068Boris\u2069 1: {tokens[6:]} \d+ ●\d ○\d")
            )
        await expect(bubble(boris, composer)).to_contain_text(f"1: {tokens[6:]}")
        await expect(bubble(boris, composer)).to_contain_text("Tries left: 11")

        await open_group(boris)
        for name, code in (("Ada", tokens[:6]), ("Boris", tokens[6:])):
            await expect(bubble(boris, board)).to_contain_text(f"\u2068{name}\u2069 1: {code}")
        await write(ada, "/end")
        for column in (ada, boris, chen):
            await expect(bubble(column, board)).to_contain_text("The game was ended.")


async def test_a_private_game_is_played_with_buttons_alone(page: Page, tmp_path: Path) -> None:
    chen = page.locator('[data-testid="person"][aria-label="Chen"]')
    async with pictured(page, tmp_path):
        await open_private_chat(chen)
        await chen.get_by_test_id("inline-button").filter(has_text="Classic").last.click()
        board = await board_id(chen, "Classic · solo", "No guess yet")
        text = await bubble(chen, board).inner_text()
        tokens = next(line for line in text.splitlines() if "🎨" in line).replace("🎨", "").strip()
        await tap(chen, board, tokens[:6])
        await expect(bubble(chen, board)).to_contain_text(f"1: {tokens[:6]} ")
        await expect(bubble(chen, board)).to_contain_text("Tries left: 11")
        await expect(bubble(chen, board)).to_contain_text("✅ 0/6")
