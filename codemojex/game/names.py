"""How a name or a title that somebody else chose stands in the bot's own message.

The rules follow Unicode: UAX #9 for direction (every name is isolated, FSI … PDI, and holds no direction marks of its
own), UTS #39 and UTR #36 for what cannot be seen (ignorable code points and blanks go; joiners stay where a script
needs them, UAX #31 rules A1 to B) and for towers of marks (four at most). What Telegram would turn into a command, a
mention, a tag, a link or a number to call is broken by an invisible word joiner. Nothing here is stored: names are
kept as they came and made readable when they are shown.
"""

from __future__ import annotations

from functools import lru_cache

import regex

from codemojex.game.emoji import clusters, is_picture

NAME_LIMIT = 32
FSI, PDI, JOINER = "\u2068", "\u2069", "\u2060"
_READ = 512  # characters that are looked at
_BLANK = regex.compile(r"[\s\x1c-\x1f\u2800\ufffc\U0001d159]+")
_UNSEEN = regex.compile(r"[\p{Cc}\p{Cs}\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\ufff9-\ufffb]")
_JOINED = (
    r"\p{Script=Arabic}\p{Script=Syriac}\p{Script=Nko}\p{Script=Mongolian}\p{Script=Devanagari}\p{Script=Bengali}"
    r"\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}"
    r"\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Myanmar}\p{Script=Khmer}"
)
_NEEDED = regex.compile(rf"(?<=[{_JOINED}])[\u200c\u200d](?=[{_JOINED}])")
_TOWER = regex.compile(r"(\p{M}{4})\p{M}+")
_LEADING = regex.compile(r"^[\p{M}\s]+")
_SEEN = regex.compile(r"[\p{L}\p{N}\p{P}\p{S}\p{Co}\p{Cn}]")
_SIGIL = regex.compile(r"([@/#$.:\uff03\uff20])(?=[^\s\ufe0f\u20e3])")
_DIGITS = regex.compile(r"(?<=\d)(?=[\d\s().-])")
_FEW = 5  # digits of which nobody makes a number to call


@lru_cache(maxsize=4096)
def readable(text: str, nameless: str) -> str:
    """The name within `NAME_LIMIT`, on one line, isolated and without entities; `nameless` when nothing can be seen."""
    text = _TOWER.sub(r"\1", "".join(_clean(text[:_READ])))
    text = _LEADING.sub("", _BLANK.sub(" ", text)).strip()
    if not _SEEN.search(text):
        text = nameless
    return f"{FSI}{_broken(_short(text))}{PDI}"


def _clean(text: str) -> list[str]:
    """The clusters without what cannot be seen; an emoji keeps what holds it together."""
    needed = {found.start() for found in _NEEDED.finditer(text)}
    kept: list[str] = []
    at = 0
    for cluster in clusters(text):
        if cluster.isspace() or is_picture(cluster):
            kept.append(cluster)
        else:
            kept.append("".join(c for i, c in enumerate(cluster, at) if i in needed or not _UNSEEN.match(c)))
        at += len(cluster)
    return kept


def _short(text: str) -> str:
    """Cut between clusters, so that no emoji falls apart."""
    if len(text) <= NAME_LIMIT:
        return text
    kept = ""
    for cluster in clusters(text):
        if len(kept) + len(cluster) >= NAME_LIMIT:
            break
        kept += cluster
    return kept + "…"


def _broken(text: str) -> str:
    text = _SIGIL.sub(rf"\1{JOINER}", text)
    many = sum(character.isdecimal() for character in text) >= _FEW
    return _DIGITS.sub(JOINER, text) if many else text
