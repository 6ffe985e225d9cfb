"""Draws a game's board as Telegram HTML: pure, from the folded state and what is known of the game.

Promise: the same state gives the same text, byte for byte, so an edit that would change nothing is recognised before
it is sent; names are isolated and escaped (`names`); the text never exceeds Telegram's 4096 UTF-16 units, because the
oldest guesses give way first. Times are absolute for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from codemojex.bot.sending import feedback
from codemojex.bot.texts import Html, Words
from codemojex.game.closing import Row
from codemojex.game.fold import GameState
from codemojex.game.ranking import Standing

TEXT_LIMIT = 4096
MAX_ROWS = 30
MAX_STANDINGS = 10


def utf16(text: str) -> int:
    """The length that Telegram counts."""
    return len(text.encode("utf-16-le")) // 2


def draw(words: Words, state: GameState, draft: str | None = None) -> Html:
    """The board. `draft` is the slots of the composer under a private board; None draws the board of a group."""
    return _fitted(words, state, _head(words, state), _foot(words, state, draft))


def personal(words: Words, state: GameState, player: str, draft: str, room: str) -> Html:
    """The board above one player's private composer for a game that is played elsewhere: as there, with own tries."""
    foot = _ending(words, state)
    if state.phase == "live":
        foot = [*_exhausted(words, state), *_composing(words, state, player, draft)]
    return _fitted(words, state, [words("composer-title", room=room), *_head(words, state)], foot)


def _composing(words: Words, state: GameState, player: str, draft: str) -> list[str]:
    """What stands above a composer's buttons; one sentence for who has no tries and so no buttons."""
    left = state.tries_left(player)
    if left == 0:
        return [words("composer-out")]
    how = words("board-how-solo", length=state.settings.length)
    public = words("composer-team" if state.settings.mode == "team" else "composer-public")
    return [words("board-tries-left", tries=left), how, public, "", words("board-draft", slots=draft)]


def _fitted(words: Words, state: GameState, head: list[str], foot: list[str]) -> Html:
    """Head, table, guesses and foot, with as many guesses as fit."""
    standings = [] if state.settings.mode == "solo" else _standings(words, state)
    rows = _rows(words, state)
    for count in range(min(len(rows), MAX_ROWS), -1, -1):
        text = "\n".join([*head, *standings, *_guesses(words, state, rows, count), *foot])
        if utf16(text) <= TEXT_LIMIT:
            return Html(text)
    return Html("\n".join([*head, *foot]))


def history(words: Words, state: GameState, player: str) -> list[str]:
    """A player's guesses, one line each, as HTML."""
    return [_own_row(words, state, row) for row in state.history(player)]


def history_toast(words: Words, state: GameState, player: str, limit: int = 200) -> str:
    """A player's latest guesses as plain text of at most `limit` UTF-16 units."""
    lines: list[str] = []
    for row in reversed(state.history(player)):
        line = f"{row.try_no or ''} {feedback.code(row)} " + (
            feedback.signs(row.score, state.shown) if row.score else "⏳"
        )
        if utf16("\n".join([line, *lines])) > limit:
            break
        lines.insert(0, line)
    return "\n".join(lines) or words.plain("history-none-toast")


def deadline(state: GameState) -> str:
    """The deadline in UTC; with the date when the game lasts a day or more."""
    if state.opened is None:
        return "?"
    return _clock(state.opened.deadline_ms, dated=state.settings.duration_s >= 86_400)


def begun(state: GameState) -> str:
    """The day and time when the game was opened, in UTC."""
    if state.opened is None:
        return "?"
    return _clock(state.opened.deadline_ms - state.settings.duration_s * 1000, dated=True)


def _clock(unix_ms: int, dated: bool = False) -> str:
    when = datetime.fromtimestamp(unix_ms / 1000, UTC)
    return f"{when:%Y-%m-%d %H:%M} UTC" if dated else f"{when:%H:%M} UTC"


def ending(words: Words, state: GameState) -> Html:
    """One sentence on how the game ended; the game is closed."""
    closed = state.closed
    reason = closed.reason if closed else "ended"
    if reason == "cracked":
        key = "ending-cracked-team" if state.settings.mode == "team" else "ending-cracked"
        return words(key, name=name_of(state, state.winner))
    return words(f"ending-{reason}")


def name_of(state: GameState, player: str | None) -> str:
    """The player's latest name among the guesses; a neutral sign when there is none."""
    return next((row.name for row in reversed(state.rows) if row.player == player), "?")


def best(state: GameState, standing: Standing) -> str:
    """The signs of the guess that counts as a line's best."""
    row = next((row for row in state.rows if row.seq == standing.best_seq), None)
    return feedback.signs(row.score, state.shown) if row and row.score else feedback.HIDDEN


def line_name(words: Words, standing: Standing) -> str:
    """Whose line of the table it is."""
    return standing.name if standing.player is not None else words.plain("board-team")


def _head(words: Words, state: GameState) -> list[str]:
    settings = state.settings
    title = words(
        "board-title",
        preset=words.plain("preset-name", preset=settings.preset),
        mode=words.plain("mode-name", mode=settings.mode),
        length=settings.length,
        size=len(settings.palette),
    )
    commitment = state.opened.commitment if state.opened else ""
    return [
        title,
        words("board-palette", palette="".join(settings.palette)),
        words("board-terms", deadline=deadline(state), commitment=commitment),
    ]


def _standings(words: Words, state: GameState) -> list[str]:
    table = state.standings()
    if not table:
        return []
    lines = [
        words(
            "board-standing",
            rank=line.rank,
            name=line_name(words, line),
            best=best(state, line),
            tries=line.tries,
        )
        for line in table[:MAX_STANDINGS]
    ]
    if len(table) > MAX_STANDINGS:
        lines.append(words("board-standings-more", count=len(table) - MAX_STANDINGS))
    return ["", words("board-standings"), *lines]


def _guesses(words: Words, state: GameState, rows: Sequence[str], count: int) -> list[str]:
    """The last `count` rows under their heading, with a line for those left out."""
    if not rows:
        return ["", words("board-nobody" if state.over else "board-no-guesses"), ""]
    earlier = len(rows) - count
    lines = [words("board-earlier", count=earlier)] if earlier else []
    return ["", words("board-guesses"), *lines, *rows[earlier:], ""]


def _rows(words: Words, state: GameState) -> list[str]:
    solo = state.settings.mode == "solo"
    draw_row = _own_row if solo else _row
    return [draw_row(words, state, row) for row in state.rows if row.codes or not state.over or row.score]


def _row(words: Words, state: GameState, row: Row) -> str:
    name = row.name
    if state.is_void(row):
        return words("board-guess-void", name=name, code=feedback.code(row))
    if row.score is None:
        return words("board-guess-waiting", name=name, **{"try": row.try_no or 0})
    code = feedback.code(row) or words.plain("board-guess-cracked")
    signs = feedback.signs(row.score, state.shown)
    return words("board-guess", name=name, code=code, feedback=signs, **{"try": row.try_no or 0})


def _own_row(words: Words, state: GameState, row: Row) -> str:
    if state.is_void(row):
        return words("board-guess-void", name=row.name, code=feedback.code(row))
    if row.score is None:
        return words("board-own-guess-waiting", **{"try": row.try_no or 0})
    code = feedback.code(row) or words.plain("board-guess-cracked")
    return words(
        "board-own-guess", code=code, feedback=feedback.signs(row.score, state.shown), **{"try": row.try_no or 0}
    )


def _ending(words: Words, state: GameState) -> list[str]:
    if state.over and state.closed:
        return [
            words("board-over", ending=ending(words, state)),
            words("board-code", code="".join(state.closed.secret)),
        ]
    if state.phase == "sealing":
        return [words("board-sealing", name=name_of(state, state.winner))]
    return []


def _exhausted(words: Words, state: GameState) -> list[str]:
    return [] if state.ends_ms is None else [words("board-exhausted", ends=_clock(state.ends_ms))]


def _foot(words: Words, state: GameState, draft: str | None) -> list[str]:
    settings = state.settings
    if state.over:
        return [*_ending(words, state), words("board-next")]
    if state.phase == "sealing":
        return _ending(words, state)
    lines = _exhausted(words, state)
    if settings.mode == "solo" and state.opened:
        lines.append(words("board-tries-left", tries=state.tries_left(state.opened.starter)))
    elif settings.mode == "team":
        lines.append(words("board-tries-left", tries=state.tries_left("")))
    if draft is None:
        return [*lines, words("board-how", length=settings.length)]
    return [*lines, words("board-how-solo", length=settings.length), "", words("board-draft", slots=draft)]
