"""Draws the message that ends a game: how it ended, the code, the final table, and the proof that it was fair."""

from __future__ import annotations

from codemojex.bot.sending.board_view import MAX_STANDINGS, TEXT_LIMIT, begun, best, ending, line_name, utf16
from codemojex.bot.texts import Html, Words
from codemojex.game.fold import GameState


def draw(words: Words, state: GameState, late: bool = False) -> Html:
    """The result of a closed game, within Telegram's limit; a `late` one says which game it was.

    Raises ValueError while the code is still secret.
    """
    closed, opened = state.closed, state.opened
    if closed is None or opened is None:
        raise ValueError("a game that is not closed has no result")
    head = [words("board-over", ending=ending(words, state)), words("board-code", code="".join(closed.secret))]
    if late:
        preset = words.plain("preset-name", preset=opened.settings.preset)
        mode = words.plain("mode-name", mode=opened.settings.mode)
        head.insert(0, words("result-late", preset=preset, mode=mode, begun=begun(state)))
    table = [
        words(
            "result-standing",
            rank=line.rank,
            name=line_name(words, line),
            best=best(state, line),
            tries=line.tries,
            points=line.points,
        )
        for line in state.standings()
    ]
    proof = words("result-proof", commitment=opened.commitment, nonce=closed.nonce)
    count = min(len(table), MAX_STANDINGS)
    while True:
        lines: list[str] = [*table[:count]]
        if len(table) > count:
            lines.append(words("board-standings-more", count=len(table) - count))
        if lines:
            lines.append("")
        text = Html("\n".join([*head, "", *lines, proof, words("board-next")]))
        if count == 0 or utf16(text) <= TEXT_LIMIT:
            return text
        count -= 1
