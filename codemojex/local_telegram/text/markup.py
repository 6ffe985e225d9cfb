"""Inline keyboards: the checks that Telegram makes before it shows one.

Keyboards that replace the phone's own are accepted and not shown: bots that depend on them are not simulated here.
"""

import json

from codemojex.local_telegram.errors import Json, bad_request, not_simulated

BUTTONS_LIMIT = 100
ROW_LIMIT = 8
MARKUP_BYTES = 10_240
CALLBACK_DATA_BYTES = 64
SHOWN_ACTIONS = {"callback_data", "url"}
LOOKS = {"text", "style", "icon_custom_emoji_id"}


def check_inline_keyboard(markup: Json) -> Json | None:
    """Return the keyboard to store, `None` for an empty one; Telegram's 400 for one that it would refuse."""
    rows = [row for row in markup["inline_keyboard"] if row]
    if sum(len(row) for row in rows) > BUTTONS_LIMIT or any(len(row) > ROW_LIMIT for row in rows):
        raise bad_request("REPLY_MARKUP_TOO_LONG")
    for row in rows:
        for button in row:
            _check_button(button)
    keyboard: Json = {"inline_keyboard": rows}
    if len(json.dumps(keyboard, ensure_ascii=False).encode()) > MARKUP_BYTES:
        raise bad_request("REPLY_MARKUP_TOO_LONG")
    return keyboard if rows else None


def _check_button(button: Json) -> None:
    actions = set(button) - LOOKS
    if not button.get("text", "").strip():
        raise bad_request('can\'t parse inline keyboard button: field "text" must be non-empty')
    if not actions:
        raise bad_request("text buttons are unallowed in the inline keyboard")
    if unknown := actions - SHOWN_ACTIONS:
        raise not_simulated(f"inline button with {', '.join(sorted(unknown))}")
    if len(actions) > 1:
        raise bad_request("can't parse inline keyboard button: only one action is allowed")
    if "callback_data" in button and not 1 <= len(button["callback_data"].encode()) <= CALLBACK_DATA_BYTES:
        raise bad_request("BUTTON_DATA_INVALID")
    if "url" in button and not str(button["url"]).startswith(("http://", "https://", "tg://")):
        raise bad_request("BUTTON_URL_INVALID")


def find_button(markup: Json | None, data: str) -> Json | None:
    """The button with this callback data."""
    for row in (markup or {}).get("inline_keyboard", []):
        for button in row:
            if button.get("callback_data") == data:
                return button
    return None
