"""The text of a message: markup, white space, lengths, and the entities that Telegram finds by itself.

`bot_text` is for what a bot sends, `person_text` for what a person types (no markup there). Lengths are UTF-16
units after parsing.
"""

import re

from codemojex.local_telegram.errors import Json, bad_request, not_simulated
from codemojex.local_telegram.text.html_text import parse_html, trim, utf16

TEXT_LIMIT = 4096
# Names of domains that Telegram takes for an address without "https://": every country's, and what people use.
TOP_LEVELS = "com|net|org|info|biz|edu|gov|mil|int|app|dev|xyz|online|site|shop|club|top|pro|name|tel|mobi|[a-z]{2}"
FOUND = re.compile(
    r"(?P<url>(?:https?|ftp|tg|ton|tonsite)://[^\s<>\"\u2000-\u206f]*[^\s<>\".,;:!?)\u2000-\u206f])"
    r"|(?<![\w.+@-])(?P<email>[A-Za-z0-9_.+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})"
    rf"|(?<![\w.@-])(?P<domain>(?:[\w-]+\.)+(?i:{TOP_LEVELS})(?![\w-])(?:[/?#:][^\s<>\"\u2000-\u206f]*)?)"
    r"|(?<![\w$])(?P<cashtag>\$[A-Z]{3,8})(?![\w$])"
    r"|(?<![\w+])(?P<phone_number>\+[0-9](?:[ ().-]?[0-9]){6,14})(?![0-9])"
    r"|(?<![\w/<>])(?P<bot_command>/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?)(?![\w/<>])"
    r"|(?<![\w@])(?P<mention>@[A-Za-z][A-Za-z0-9_]{2,31})"
    r"|(?<![\w#])(?P<hashtag>#[^\W\d]\w*)"
)


def find_entities(text: str, known: list[Json]) -> list[Json]:
    """Add commands, mentions, addresses, tags and telephone numbers; none within the `known` code and links."""
    closed = [entity for entity in known if entity["type"] in ("code", "pre", "text_link")]
    entities = list(known)
    for found in FOUND.finditer(text):
        offset, length = utf16(text[: found.start()]), utf16(found.group())
        if all(offset >= e["offset"] + e["length"] or offset + length <= e["offset"] for e in closed):
            kind = "url" if found.lastgroup == "domain" else found.lastgroup
            entities.append({"type": kind, "offset": offset, "length": length})
    entities.sort(key=lambda entity: (entity["offset"], -entity["length"]))
    return entities


def bot_text(text: str | None, parse_mode: str | None, entities: list[Json] | None) -> tuple[str, list[Json]]:
    """What a bot's text becomes: plain text and entities, or Telegram's 400."""
    if parse_mode and parse_mode.lower() != "html":
        raise not_simulated(f"parse_mode {parse_mode}")
    if not text:
        raise bad_request("message text is empty")
    if entities is not None:
        size = utf16(text)
        for entity in entities:
            if entity["offset"] < 0 or entity["length"] <= 0 or entity["offset"] + entity["length"] > size:
                raise bad_request(f"entity beginning at UTF-16 offset {entity['offset']} ends outside of the text")
        plain, marks = text, entities
    else:
        plain, marks = parse_html(text) if parse_mode else (text, [])
    return _finish(plain, marks)


def person_text(text: str) -> tuple[str, list[Json]]:
    """What a person's typing becomes."""
    return _finish(text, [])


def _finish(plain: str, marks: list[Json]) -> tuple[str, list[Json]]:
    plain, marks = trim(plain.replace("\r", ""), marks)
    if not plain:
        raise bad_request("message text is empty")
    if utf16(plain) > TEXT_LIMIT:
        raise bad_request("message is too long")
    return plain, find_entities(plain, marks)
