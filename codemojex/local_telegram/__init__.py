"""A Telegram on loopback: the Bot API, people who write and press, and a page of their chats.

The bot under test talks to it as it talks to Telegram; tests and the page act as the people through the control
API. It is stateful and strict, and it never answers success for something that it did not do. It is not a copy of
Telegram: files, payments, stickers and inline mode are refused with "not simulated".
"""

from codemojex.local_telegram.server import DEFAULT_TOKEN, LocalTelegram

__all__ = ["DEFAULT_TOKEN", "LocalTelegram"]
