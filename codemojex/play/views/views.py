"""What a game looks like: the fold of its stream, kept up to date step by step.

A process keeps the folds of the games it looked at last and reads only what was appended since. A game whose
stream is archived is folded from the durable store and gives the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from codemojex.engine import ids
from codemojex.engine.streams import streams
from codemojex.game.events import Event, event_from
from codemojex.game.fold import GameState
from codemojex.play import keys
from codemojex.play.context import Play
from codemojex.play.views.folds import Folded
from codemojex.store.history import read_records
from codemojex.store.records import StreamRecord

PAGE = 1_000  # records of one read
MAX_PAGES = 10_000


@dataclass(frozen=True, slots=True)
class Told:
    """A record of a game's stream and the event that it tells."""

    record: StreamRecord
    event: Event


@dataclass(frozen=True, slots=True)
class Malformed:
    """An entry of a stream that is no event; `id` is its place in the stream."""

    id: str
    fields: Mapping[str, bytes]
    error: str


async def view(play: Play, game_id: str) -> GameState | None:
    """The state of the game now; None when no stream, live or archived, is known. The secret is in it once closed.

    Raises StoreUnavailable only when the live stream is gone and the durable store does not answer.
    """
    known = play.folds.get(game_id)
    if known is not None and known.state.settled is not None:
        return known.state  # nothing follows
    state, last = (known.state, known.last) if known else (GameState(), "")
    phase = await _phase(play, game_id)  # before the stream: what it says is in the stream, unless that is trimmed
    for _ in range(MAX_PAGES):
        page = await page_after(play, game_id, last)
        if page:
            state = state.apply_all(item.event for item in page if isinstance(item, Told))
            last = place(page[-1])
            if state.opened is not None:
                play.folds.put(game_id, Folded(state, last))
        if len(page) < PAGE:
            break
    missing = state.opened is None or phase is None or (phase == b"settled" and state.settled is None)
    if not missing or state.settled is not None:
        return state
    return await _archived(play, game_id) or (state if state.opened is not None else None)


async def page_after(play: Play, game_id: str, last: str) -> list[Told | Malformed]:
    """Up to `PAGE` records after the stream's own id `last`; "" is the beginning."""
    home = keys.queue(play.options, game_id)
    found = await streams.read(play.bus, home, game_id, f"({last}" if last else "-", count=PAGE)
    return [told(game_id, record) for record in found]


def told(game_id: str, found: streams.Record) -> Told | Malformed:
    """What an entry of a stream tells, or why it tells nothing."""
    try:
        if found.id != ids.from_stream_id("EVT", found.stream_id):
            raise ValueError(f"its id is {found.id}, which is not its place in the stream")
        if found.text("game") != game_id:
            raise ValueError(f"it belongs to game {found.text('game')!r}")
        data = msgspec.json.decode(found.fields["data"], type=dict[str, object])
        record = StreamRecord(found.id, found.text("kind"), int(found.text("v")), found.text("game"), data)
        return Told(record, event_of(record))
    except (KeyError, ValueError) as error:
        return Malformed(found.stream_id, dict(found.fields), f"{type(error).__name__}: {error}")


def place(item: Told | Malformed) -> str:
    """The stream's own id of an entry."""
    return item.id if isinstance(item, Malformed) else ids.parse(item.record.id).stream_id


def raw(item: Malformed) -> bytes:
    """A bad entry as JSON for somebody to look at; bytes that are no text are escaped."""
    fields = item.fields
    return msgspec.json.encode({name: value.decode(errors="backslashreplace") for name, value in fields.items()})


def event_of(record: StreamRecord) -> Event:
    """The event of a record. Raises DataError or EventVersionError."""
    return event_from(record.kind, record.data)


async def _phase(play: Play, game_id: str) -> bytes | None:
    return await play.bus.execute("HGET", keys.game(keys.queue(play.options, game_id), game_id), "state")


async def _archived(play: Play, game_id: str) -> GameState | None:
    records = await read_records(play.store, game_id)
    if not records:
        return None
    state = GameState().apply_all(event_of(record) for record in records)
    if state.settled is not None:
        play.folds.put(game_id, Folded(state, ids.parse(records[-1].id).stream_id))
    return state
