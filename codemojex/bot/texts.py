"""Every sentence the bot says, from one Fluent file a language.

`Words` of a language give HTML with all arguments escaped (wrap ready markup in `Html`), or plain text for toasts and
button labels. A language that is not there falls back to English, a sentence that is not there as well; a sentence
that English lacks is a defect and raises. Adding a language means adding one file. Arguments that other people chose
(`FOREIGN`) always pass `names.readable`, and none is longer than `LONGEST_ARGUMENT`, so that no text breaks a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from typing import Any, cast

from fluent.runtime import FluentBundle, FluentResource

from codemojex.game.names import readable

FALLBACK = "en"
LONGEST_ARGUMENT = 400  # characters; escaped they stay below Fluent's 2,500
# Arguments whose value somebody else chose, and the sentence that stands for one in which nothing can be seen.
FOREIGN = {"name": "nameless", "room": "nameless-room", "word": "nameless-word"}


class Html(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


class UnknownText(LookupError):
    """No language file has this sentence."""


class Words:
    """The sentences of one language."""

    def __init__(self, language: str, bundles: tuple[FluentBundle, ...]) -> None:
        self.language = language
        self._bundles = bundles

    def __call__(self, key: str, **args: str | int) -> Html:
        """The sentence as HTML; arguments that are not `Html` are escaped."""
        return Html(self._format(key, {name: _safe(value) for name, value in self._shown(args)}))

    def plain(self, key: str, **args: str | int) -> str:
        """The sentence as plain text: for toasts, alerts and labels, which know no markup."""
        return self._format(key, dict(self._shown(args)))

    def _shown(self, args: Mapping[str, str | int]) -> Iterator[tuple[str, str | int]]:
        """The arguments as they may stand in a message."""
        for name, value in args.items():
            if name in FOREIGN:
                yield name, readable(str(value), self._format(FOREIGN[name], {}))
            elif isinstance(value, str) and not isinstance(value, Html) and len(value) > LONGEST_ARGUMENT:
                yield name, value[: LONGEST_ARGUMENT - 1] + "…"
            else:
                yield name, value

    def _format(self, key: str, args: Mapping[str, str | int]) -> str:
        for bundle in self._bundles:
            if bundle.has_message(key):
                value = bundle.get_message(key).value
                if value is not None:
                    text, errors = bundle.format_pattern(value, {**args})
                    if errors:
                        raise UnknownText(f"text {key!r} in {self.language!r}: {errors[0]}")
                    return str(text)
        raise UnknownText(f"no text {key!r}: add it to locales/{FALLBACK}.ftl")


class Texts:
    """All languages. `language` picks one by what Telegram tells, `of` gives its words."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        """`sources` maps a language code to the text of its Fluent file; English must be there."""
        bundles = {code: _bundle(code, source) for code, source in sources.items()}
        english = bundles[FALLBACK]
        self._words = {
            code: Words(code, (bundle,) if bundle is english else (bundle, english)) for code, bundle in bundles.items()
        }

    def language(self, code: str | None) -> str:
        """`en_US`, `zh-hans`, `` or None → a language that is there: the exact one, its first part, or English."""
        wanted = (code or "").strip().lower().replace("_", "-")
        while wanted:
            if wanted in self._words:
                return wanted
            wanted = wanted.rpartition("-")[0]
        return FALLBACK

    def languages(self) -> list[str]:
        """The codes of all languages, sorted."""
        return sorted(self._words)

    def of(self, code: str | None) -> Words:
        """The words of the language nearest to `code`."""
        return self._words[self.language(code)]


def load_texts() -> Texts:
    """Read the language files of this package."""
    folder = files("codemojex.bot") / "locales"
    return Texts(
        {
            entry.name.removesuffix(".ftl"): entry.read_text(encoding="utf-8")
            for entry in folder.iterdir()
            if entry.name.endswith(".ftl")
        }
    )


def _safe(value: str | int) -> str | int:
    return value if isinstance(value, Html | int) else escape(value, quote=False)


def _bundle(code: str, source: str) -> FluentBundle:
    # Isolation marks around every argument would count as characters and break emoji rows.
    bundle = FluentBundle([code], use_isolating=False)
    resource = FluentResource(source)
    bad = [entry for entry in cast("list[Any]", resource.body) if type(entry).__name__ == "Junk"]  # syntax nodes
    if bad:
        raise UnknownText(f"locales/{code}.ftl: cannot read {bad[0].content.splitlines()[0]!r}")
    bundle.add_resource(resource)
    return bundle
