"""Pieces of invented games: ids that nobody else uses, records and rows that fit each other."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from codemojex.store.records import (
    ArchivedGame,
    ArchivedGuess,
    ArchivedPlayer,
    ArchivedRoom,
    ArchivedStanding,
    StreamRecord,
)

QUEUE = "cm"
OPENED = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
SECRET = ("🐶", "🐱", "🦊", "🐻")
_numbers = itertools.count(1)


def new_id(namespace: str) -> str:
    """A branded id, later ones greater."""
    return f"{namespace}{next(_numbers):011}"


def room(**fields) -> ArchivedRoom:
    number = next(_numbers)
    base = ArchivedRoom(id=new_id("ROM"), chat_id=-(10**12) - number, thread_id=None, kind="group", title="Friends 🎲")
    return replace(base, **fields)


def player(name: str = "Ada", **fields) -> ArchivedPlayer:
    number = next(_numbers)
    base = ArchivedPlayer(id=new_id("PLR"), user_id=2**40 + number, name=name, lang="en", created_at=OPENED)
    return replace(base, **fields)


def guess(seq: int, by: ArchivedPlayer, **fields) -> ArchivedGuess:
    base = ArchivedGuess(
        id=new_id("GES"), player=by.id, seq=seq, try_no=1, code=SECRET, total=400, exact=4, misplaced=0, tiles="GGGG"
    )
    return replace(base, **fields)


def game(**fields) -> ArchivedGame:
    """A cracked race of two: Boris first, Ada after the cut."""
    ada, boris = player("Ada"), player("Boris")
    base = ArchivedGame(
        id=new_id("GAM"),
        room=room(),
        players=(ada, boris),
        preset="quick",
        mode="race",
        settings={"length": 4, "feedback": ["tiles"], "palette": [*SECRET, "🐼"]},
        commitment="a" * 64,
        secret=SECRET,
        nonce="b" * 32,
        state="settled",
        reason="cracked",
        winner=boris.id,
        opened_at=OPENED,
        closed_at=OPENED + timedelta(minutes=5),
        cut=2,
        guesses=(
            guess(1, ada, code=("🐱", "🐶", "🦊", "🐻"), total=334, exact=2, misplaced=2, tiles="YYGG"),
            guess(2, boris),
            guess(3, ada, try_no=2, total=None, exact=None, misplaced=None, tiles=None, void=True),
        ),
        standings=(
            ArchivedStanding(boris.id, rank=1, best_total=400, best_seq=2, tries=1, points=170, cracked=True),
            ArchivedStanding(ada.id, rank=2, best_total=334, best_seq=1, tries=2, points=41, cracked=False),
        ),
    )
    return replace(base, **fields)


def records(game_id: str, count: int = 3) -> list[StreamRecord]:
    return [
        StreamRecord(new_id("EVT"), "guess.scored", 1, game_id, {"seq": seq, "code": list(SECRET), "total": 20 * seq})
        for seq in range(count)
    ]
