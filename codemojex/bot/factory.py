"""Builds the aiogram objects. Nothing here talks to anybody; `app.py` decides when and with what."""

from __future__ import annotations

from aiogram import Bot, Dispatcher
from aiogram.client.default import DefaultBotProperties
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.fsm.storage.base import BaseStorage

from codemojex.bot.screens import all_routers


def build_bot(token: str, api_url: str = "https://api.telegram.org", timeout_s: float = 15.0) -> Bot:
    """A client of the Bot API at `api_url`; every call has `timeout_s`. Close its session when done."""
    session = AiohttpSession(api=TelegramAPIServer.from_base(api_url), timeout=timeout_s)
    properties = DefaultBotProperties(parse_mode="HTML", link_preview_is_disabled=True)
    return Bot(token, session=session, default=properties)


def build_dispatcher(storage: BaseStorage) -> Dispatcher:
    """The dispatcher with every screen's router, hot ones first, and a last one that answers what nobody took.

    No event isolation: the conversation's lane already lets one update at a time through.
    """
    dispatcher = Dispatcher(storage=storage)
    dispatcher.include_routers(*all_routers())
    return dispatcher
