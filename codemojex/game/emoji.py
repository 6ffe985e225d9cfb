"""Reads emojis: splits a text into what a person sees as one sign, and maps every spelling to one canonical token.

Promise: two spellings of one emoji (with or without a variation selector, with a skin tone, composed or not) give the
same token, and a text becomes a guess only when nothing but emojis is in it. It never measures a text with `len()`,
never compares raw strings, and does not decide what a refused text says to the player: the verdict is a value.
"""

import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import regex

from codemojex.game.locks import fill

_CLUSTER = regex.compile(r"\X")
_VARIATION = regex.compile("[\ufe0e\ufe0f]")
_TONE = regex.compile("[\U0001f3fb-\U0001f3ff]")
_INVISIBLE = regex.compile(r"[\s\p{Cc}\p{Default_Ignorable_Code_Point}]+")
# Pictographs below the arrows block (© ® ‼ ⁉ ™ ℹ) are ordinary text until a variation selector asks for a picture.
_PICTURE = regex.compile(
    r"\p{Emoji_Presentation}|\p{Regional_Indicator}|\N{COMBINING ENCLOSING KEYCAP}"
    r"|\p{Extended_Pictographic}\ufe0f|[\p{Extended_Pictographic}--[\u0000-\u218f]]",
    regex.VERSION1,
)


@dataclass(frozen=True, slots=True)
class Guess:
    """A complete guess: canonical tokens of the palette, in order."""

    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotACode:
    """No guess at all: empty, or words among the emojis. Stay silent."""


@dataclass(frozen=True, slots=True)
class UnknownEmoji:
    """An emoji that is not in the palette, as the player spelled it."""

    cluster: str


@dataclass(frozen=True, slots=True)
class WrongLength:
    """Only palette emojis, but `n` of them where the code needs another number."""

    n: int


@dataclass(frozen=True, slots=True)
class Repeated:
    """The right number of palette emojis, but this one more than once."""

    token: str


Parsed = Guess | NotACode | UnknownEmoji | WrongLength | Repeated


def clusters(text: str) -> list[str]:
    """Split a text into extended grapheme clusters; joined, they are the text again."""
    return _CLUSTER.findall(text)


def canonical(cluster: str) -> str:
    """Give the canonical token of one cluster: NFC, then without variation selectors; joiners, tags and tones stay."""
    return _VARIATION.sub("", unicodedata.normalize("NFC", cluster))


def is_picture(cluster: str) -> bool:
    """Tell whether a cluster is shown as an emoji; a bare digit, letter or © is not, a flag or keycap is."""
    return _PICTURE.search(cluster) is not None


def token_of(cluster: str, palette: Collection[str]) -> str | None:
    """Find the palette token that a cluster spells; `None` when it spells none.

    An exact canonical match wins over a match without skin tones, so a palette could even hold toned emojis.
    """
    tokens = {canonical(token): token for token in palette}
    return _lookup(cluster, tokens)


def _lookup(cluster: str, tokens: Mapping[str, str]) -> str | None:
    token = canonical(cluster)
    return tokens.get(token) or tokens.get(_TONE.sub("", token))


def parse_guess(text: str, palette: Collection[str], length: int, locks: Mapping[int, str] | None = None) -> Parsed:
    """Read a message as a guess of `length` distinct emojis of `palette`.

    Spaces, line breaks and invisible characters between emojis are ignored. The first verdict that applies is given:
    `NotACode` (any word, digit or punctuation, or no emoji), `UnknownEmoji` (the first foreign emoji), `WrongLength`,
    `Repeated`.
    `locks` are pinned emojis (position from 0 to token): a text that has exactly the free positions is completed with
    them; a text of full length is taken as typed.
    """
    seen = [cluster for cluster in clusters(text) if _INVISIBLE.fullmatch(cluster) is None]
    if not seen or not all(is_picture(cluster) for cluster in seen):
        return NotACode()
    tokens = {canonical(token): token for token in palette}
    typed: list[str] = []
    for cluster in seen:
        token = _lookup(cluster, tokens)
        if token is None:
            return UnknownEmoji(cluster.strip())
        typed.append(token)
    # A pin may be left over from a game with another palette: it must not smuggle a foreign emoji in.
    pinned = {place: token for place, token in (locks or {}).items() if token in palette}
    return check_code(fill(pinned, typed, length) or tuple(typed), length)


def check_code(tokens: tuple[str, ...], length: int) -> Guess | WrongLength | Repeated:
    """Check the number and distinctness of palette tokens; for codes built with buttons as for typed ones."""
    if len(tokens) != length:
        return WrongLength(len(tokens))
    for position, token in enumerate(tokens):
        if token in tokens[:position]:
            return Repeated(token)
    return Guess(tokens)
