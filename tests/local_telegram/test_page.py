"""The page, driven in a browser: people side by side, live bubbles, buttons, keyboard, phone width, foreign markup."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator

import pytest_asyncio
from aiogram import Bot
from aiogram.types import BotCommand, EphemeralMessageParameters, InlineKeyboardButton, InlineKeyboardMarkup
from playwright.async_api import Locator, Page, async_playwright, expect

from codemojex.local_telegram import LocalTelegram
from tests.support.telegram import People


@pytest_asyncio.fixture
async def page(telegram: LocalTelegram) -> AsyncIterator[Page]:
    """A browser page that is open on the server; errors in its scripts fail the test."""
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        opened = await browser.new_page(viewport={"width": 1440, "height": 900})
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        await opened.goto(telegram.url)
        await expect(opened.get_by_test_id("connection")).to_have_text("live", timeout=15_000)
        yield opened
        await browser.close()
        assert errors == []


def column(page: Page, user_id: int) -> Locator:
    return page.locator(f'[data-testid="person"][data-person="{user_id}"]')


def keyboard(**data: str) -> InlineKeyboardMarkup:
    rows = [
        [InlineKeyboardButton(text=text, **({"url": d} if d.startswith("http") else {"callback_data": d}))]
        for text, d in data.items()
    ]
    return InlineKeyboardMarkup(inline_keyboard=rows)


async def answer_one(bot: Bot, text: str, show_alert: bool) -> str:
    """Answer the next pressed button; returns its data."""
    offset = None
    async with asyncio.timeout(15):
        while True:
            for update in await bot.get_updates(offset=offset, timeout=10):
                offset = update.update_id + 1
                if update.callback_query:
                    await bot.answer_callback_query(update.callback_query.id, text=text, show_alert=show_alert)
                    await bot.get_updates(offset=offset)
                    return update.callback_query.data or ""


async def test_from_an_empty_page_a_person_is_added_and_starts_the_bot(page: Page, people: People, bot: Bot):
    await bot.set_my_description("Crack the code.")
    await expect(page.get_by_role("heading", name="Local Telegram")).to_be_visible()
    await expect(page.get_by_test_id("nobody")).to_be_visible()
    await page.get_by_test_id("nobody").get_by_role("button").click()
    await page.get_by_label("Name", exact=True).fill("Ada")
    await page.keyboard.press("Enter")
    ada = page.get_by_test_id("person")
    await expect(ada.get_by_test_id("welcome")).to_contain_text("Crack the code.")
    await ada.get_by_test_id("start").click()
    await expect(ada.get_by_test_id("message")).to_have_text(["/start" + await stamp(ada)])
    await expect(ada.get_by_test_id("composer")).to_be_visible()
    assert [update.message.text for update in await bot.get_updates()] == ["/start"]


async def stamp(ada: Locator) -> str:
    message = ada.get_by_test_id("message").first
    return await message.locator("time").inner_text() + await message.get_by_test_id("reply").inner_text()


async def test_two_people_see_messages_edits_and_deletions_at_once(page: Page, people: People, bot: Bot, ada: int):
    boris = await people.add_person("Boris")
    group = await people.add_group("Talk", [ada, boris], privacy=False)
    for user_id in (ada, boris):
        await column(page, user_id).locator(f'[data-testid="chat"][data-chat="{group}"]').click()
        await expect(column(page, user_id).get_by_test_id("message")).to_have_count(1)
    await column(page, ada).get_by_test_id("composer").fill("hello Boris")
    await page.keyboard.press("Enter")
    await expect(column(page, boris).get_by_test_id("message").last).to_contain_text("hello Boris")
    sent = await bot.send_message(group, "<b>one</b>", parse_mode="HTML")
    shown = column(page, boris).locator(f'[data-message-id="{sent.message_id}"]')
    await expect(shown.locator("strong")).to_have_text("one")
    await bot.edit_message_text("two", chat_id=group, message_id=sent.message_id)
    await expect(shown.get_by_test_id("text")).to_have_text("two")
    await expect(shown).to_contain_text("edited")
    await bot.delete_message(group, sent.message_id)
    await expect(shown).to_have_count(0)
    alone = EphemeralMessageParameters(receiver_user_id=ada)
    await bot.send_message(group, "for Ada", ephemeral_message_parameters=alone)
    await bot.send_message(group, "for all")
    await expect(column(page, ada).get_by_test_id("message").filter(has_text="for Ada")).to_contain_text("only you")
    await expect(column(page, boris).get_by_test_id("message").last).to_contain_text("for all")
    await expect(column(page, boris).get_by_test_id("message").filter(has_text="for Ada")).to_have_count(0)
    await bot.send_message(ada, "psst")
    await expect(column(page, ada).get_by_test_id("unread")).to_have_text("1")


async def test_pressed_buttons_show_toasts_and_alerts_and_links_open_the_private_chat(
    page: Page, people: People, bot: Bot, ada: int
):
    group = await people.add_group("Talk", [ada])
    link = "https://t.me/codemojex_bot?start=GAM1"
    await bot.send_message(group, "board", reply_markup=keyboard(toast="t", alert="a", link=link))
    mine = column(page, ada)
    await mine.locator(f'[data-testid="chat"][data-chat="{group}"]').click()
    async with asyncio.TaskGroup() as tasks:
        answered = tasks.create_task(answer_one(bot, "Nice", False))
        await mine.locator('[data-callback="t"]').click()
    assert answered.result() == "t"
    await expect(mine.get_by_test_id("toast")).to_have_text("Nice")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(answer_one(bot, "Careful", True))
        await mine.locator('[data-callback="a"]').click()
    await expect(page.get_by_test_id("alert")).to_contain_text("Careful")
    await page.keyboard.press("Enter")
    await expect(page.get_by_test_id("alert")).to_have_count(0)
    await mine.get_by_test_id("link-button").click()
    await expect(mine.get_by_test_id("message").last).to_contain_text("/start GAM1")


async def test_commands_and_emojis_can_be_chosen_by_keyboard(page: Page, people: People, bot: Bot, ada: int):
    await bot.set_my_commands(
        [BotCommand(command="play", description="Play"), BotCommand(command="help", description="?")]
    )
    await bot.send_message(ada, "🎯 A game\n🎨 🥑🦚🐢", reply_markup=keyboard(**{"✏️ Go": "k1", "✖️": "k2"}))
    mine = column(page, ada)
    await expect(mine.get_by_test_id("inline-button")).to_have_count(2)
    await mine.get_by_test_id("open-emojis").focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Escape")
    await expect(mine.get_by_test_id("emoji-picker")).to_have_count(0)
    await expect(mine.get_by_test_id("composer")).to_have_value("🥑🦚")
    await page.keyboard.press("Enter")
    await expect(mine.get_by_test_id("message").last).to_contain_text("🥑🦚")
    await page.keyboard.type("/")
    await expect(mine.get_by_test_id("command")).to_have_count(2)
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(mine.get_by_test_id("message").last).to_contain_text("/help")


async def test_names_and_texts_are_never_markup(page: Page, people: People, bot: Bot, ada: int):
    evil = "<img src=x onerror=alert(1)>"
    eve = await people.add_person(evil)
    group = await people.add_group(evil, [ada, eve], privacy=False)
    await people.send(eve, group, evil)
    await bot.send_message(group, '<a href="javascript.alert(1)">x</a>', parse_mode="HTML")
    await column(page, ada).locator(f'[data-testid="chat"][data-chat="{group}"]').click()
    await expect(column(page, ada).get_by_test_id("message").filter(has_text=evil).first).to_be_visible()
    assert await page.locator("#columns img, #people img").count() == 0
    assert await page.locator('a[href^="javascript:"]').count() == 0


async def test_a_topic_is_opened_and_written_to(page: Page, people: People, ada: int):
    forum = await people.add_group("Forum", [ada], forum=True)
    mine = column(page, ada)
    await mine.locator(f'[data-testid="chat"][data-chat="{forum}"]').click()
    await mine.get_by_test_id("add-topic").click()
    await page.get_by_test_id("topic-name").fill("Daily")
    await page.keyboard.press("Enter")
    await mine.get_by_test_id("topic").filter(has_text="Daily").click()
    await mine.get_by_test_id("composer").fill("in the topic")
    await page.keyboard.press("Enter")
    await expect(mine.get_by_test_id("message").last).to_contain_text("in the topic")
    opened, written = (await people.messages(forum))[-2:]
    assert written["message_thread_id"] == opened["message_id"]


async def test_the_page_fits_a_phone(page: Page, people: People, bot: Bot, ada: int):
    boris = await people.add_person("Boris")
    await bot.send_message(ada, "x " * 300 + "y" * 200, reply_markup=keyboard(Play="p"))
    await page.set_viewport_size({"width": 360, "height": 640})
    await expect(column(page, ada).get_by_test_id("inline-button")).to_be_in_viewport()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    assert await column(page, ada).evaluate("element => element.scrollWidth <= element.clientWidth")
    await page.locator(f'[data-testid="person-tab"][data-person="{boris}"]').click()
    await expect(column(page, boris).get_by_test_id("start")).to_be_in_viewport()


CODE, TILES = "🥑🦚🐢🍎🍋🍇", "🟩🟨⬜⬜🟨🟩"
ROWS = [
    f"Ada 1: {CODE} {TILES}",
    f"Boris 10: {CODE} {TILES} 512",
    f"{CODE} {TILES} 512 ●3 ○2",  # of Chen, behind a name that has a line to itself
    f"1: {CODE} {TILES}",
    "🟩🟩🟩⬜⬜⬜ 800",  # of the standings
]
FINISHED = f"""Standings
1. Maximilian Alexander the Great – {ROWS[4]} · 3 tries

<b>Guesses</b>
{ROWS[0]}
{ROWS[1]}
Maximilian Alexander the Great 1: {ROWS[2]}
{ROWS[3]}

The code was {CODE}"""
LINES_OF = """(text, part) => {
  const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const at = node.data.indexOf(part);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(node, at);
    range.setEnd(node, at + part.length);
    const boxes = [...range.getClientRects()];
    const size = parseFloat(getComputedStyle(node.parentElement).fontSize);
    const edge = text.closest(".bubble").getBoundingClientRect().right;
    const tops = new Set(boxes.map((box) => Math.round(box.top)));
    return [tops.size, boxes.every((box) => box.right <= edge), size];
  }
  return [0, false, 0];
}"""


async def test_a_row_of_six_emojis_and_its_marks_stand_on_one_line_of_a_phone(
    page: Page, people: People, bot: Bot, ada: int
):
    sent = await bot.send_message(ada, FINISHED, parse_mode="HTML")
    text = column(page, ada).locator(f'[data-message-id="{sent.message_id}"]').get_by_test_id("text")
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        for width in (360, 320, 1440):
            await page.set_viewport_size({"width": width, "height": 760})
            await expect(text).to_be_visible()
            for row in ROWS:
                lines, inside, size_px = await text.evaluate(f"element => ({LINES_OF})(element, {row!r})")
                assert (lines, inside) == (1, True), f"{row} at {width} px"
                assert size_px >= (11 if width >= 360 else 9), f"{row} at {width} px"
    assert await text.text_content() == re.sub(r"</?b>", "", FINISHED), "nothing is lost or doubled"
