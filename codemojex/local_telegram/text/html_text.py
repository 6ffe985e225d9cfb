"""Telegram's HTML: a text with tags becomes a plain text and entities, or the error that Telegram gives.

Follows the published behaviour of the server byte by byte where bots can see it: offsets in errors are bytes,
entity offsets are UTF-16 units, an unknown `&name;` stays as it is, and a stray `<` is an error. MarkdownV2 is not
simulated.
"""

import re
from dataclasses import dataclass

from codemojex.local_telegram.errors import ApiError, Json, bad_request

TAGS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "span": "spoiler",
    "tg-spoiler": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-emoji": "custom_emoji",
}
REFERENCE = re.compile(r"&(?:#(\d{1,8})|#[xX]([0-9a-fA-F]{1,8})|(lt|gt|amp|quot));?")
ATTRIBUTE = re.compile(r"""\s+([a-zA-Z0-9_-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'=]+)))?""")
NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}


def utf16(text: str) -> int:
    """The length in UTF-16 units, Telegram's measure of texts."""
    return len(text) + sum(character > "\uffff" for character in text)


@dataclass
class _Open:
    """A start tag that waits for its end."""

    tag: str
    attributes: dict[str, str]
    offset: int  # UTF-16, in the plain text


def parse_html(source: str) -> tuple[str, list[Json]]:
    """Return the plain text and its entities; a mistake in the markup is Telegram's 400."""
    plain: list[str] = []
    length = 0
    stack: list[_Open] = []
    entities: list[Json] = []
    at = 0
    while at < len(source):
        character = source[at]
        if character == "&" and (found := REFERENCE.match(source, at)) and (decoded := _decode(found)):
            plain.append(decoded)
            length += utf16(decoded)
            at = found.end()
        elif character != "<":
            plain.append(character)
            length += utf16(character)
            at += 1
        elif source.startswith("</", at):
            at = _end_tag(source, at, stack, entities, length)
        else:
            opened, at = _start_tag(source, at)
            opened.offset = length
            stack.append(opened)
    if stack:
        raise _error(f'Can\'t find end tag corresponding to start tag "{stack[-1].tag}"')
    entities.sort(key=lambda entity: (entity["offset"], -entity["length"]))
    return "".join(plain), entities


def trim(text: str, entities: list[Json]) -> tuple[str, list[Json]]:
    """Cut the white space around a text as the server does, and move the entities."""
    cut = utf16(text) - utf16(text.lstrip())
    text = text.strip()
    end = utf16(text)
    kept: list[Json] = []
    for entity in entities:
        start = max(0, entity["offset"] - cut)
        stop = min(end, entity["offset"] + entity["length"] - cut)
        if stop > start:
            kept.append({**entity, "offset": start, "length": stop - start})
    return text, kept


def _error(reason: str) -> ApiError:
    return bad_request(f"can't parse entities: {reason}")


def _bytes(source: str, at: int) -> int:
    return len(source[:at].encode("utf-8", "surrogatepass"))


def _decode(found: re.Match[str]) -> str | None:
    decimal, hexadecimal, name = found.groups()
    if name:
        return NAMED[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else None


def _start_tag(source: str, at: int) -> tuple[_Open, int]:
    begin = _bytes(source, at)
    found = re.compile(r"[^\s>]*").match(source, at + 1)
    tag = found.group().lower() if found else ""
    position = at + 1 + len(tag)
    if position >= len(source):
        raise _error(f"Unclosed start tag at byte offset {begin}")
    if tag not in TAGS:
        raise _error(f'Unsupported start tag "{tag}" at byte offset {begin}')
    attributes: dict[str, str] = {}
    while found := ATTRIBUTE.match(source, position):
        name = found.group(1).lower()
        value = next((group for group in found.groups()[1:] if group is not None), "")
        attributes[name] = REFERENCE.sub(lambda match: _decode(match) or match.group(), value)
        position = found.end()
    while position < len(source) and source[position].isspace():
        position += 1
    if position >= len(source):
        raise _error(f'Unclosed start tag "{tag}" at byte offset {begin}')
    if source[position] != ">":
        raise _error(f'Unexpected character in the tag "{tag}" at byte offset {_bytes(source, position)}')
    if tag == "span" and attributes.get("class") != "tg-spoiler":
        raise _error(f'Tag "span" must have class "tg-spoiler" at byte offset {begin}')
    return _Open(tag, attributes, 0), position + 1


def _end_tag(source: str, at: int, stack: list[_Open], entities: list[Json], length: int) -> int:
    begin = _bytes(source, at)
    if not stack:
        raise _error(f"Unexpected end tag at byte offset {begin}")
    close = source.find(">", at)
    if close < 0:
        raise _error(f"Unclosed end tag at byte offset {begin}")
    name = source[at + 2 : close].strip().lower()
    opened = stack.pop()
    if name and name != opened.tag:
        raise _error(f'Unmatched end tag at byte offset {begin}, expected "</{opened.tag}>", found "</{name}>"')
    entity = _entity(opened, length)
    if entity is not None and entity["length"] > 0:
        entities.append(entity)
    return close + 1


def _entity(opened: _Open, length: int) -> Json | None:
    entity: Json = {"type": TAGS[opened.tag], "offset": opened.offset, "length": length - opened.offset}
    match opened.tag:
        case "a":
            url = opened.attributes.get("href", "")
            if not re.match(r"(https?|tg|mailto):", url) and "." not in url:
                return None
            entity["url"] = url
        case "tg-emoji":
            entity["custom_emoji_id"] = opened.attributes.get("emoji-id", "")
        case "blockquote" if "expandable" in opened.attributes:
            entity["type"] = "expandable_blockquote"
        case "code" if opened.attributes.get("class", "").startswith("language-"):
            entity["language"] = opened.attributes["class"].removeprefix("language-")
        case _:
            pass
    return entity
