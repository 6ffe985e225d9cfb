"""Every process of the fleet dies again and again while two thousand guesses are played; nothing is lost or doubled.

Members are killed with SIGKILL at random points of the progress and replaced at once. The local Telegram does not
enforce its sending limits and the budgets are raised, so that the test measures recovery and not patience. The seed
of a failed run is in its report; `SEEDS` may be given another.
"""

from __future__ import annotations

import asyncio
import html
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from codemojex.bot.sending import board_view
from codemojex.bot.texts import load_texts
from codemojex.engine import keyspace
from codemojex.engine.inspection import metrics
from codemojex.engine.inspection.audit import audit
from codemojex.engine.streams import streams
from codemojex.engine.streams.record import Record
from codemojex.game.events import GuessAccepted, GuessRefused, GuessScored
from codemojex.play import games, keys, rooms
from codemojex.play.games import GameSnapshot
from codemojex.play.views import views
from codemojex.store.history import read_game, read_records
from tests.support.databases import migrated_database, postgres_server
from tests.support.telegram import People
from tests.support.valkey import ValkeyServer
from tests.system.fleet import Ground, fleet_database, ground, until

__all__ = ["fleet_database", "migrated_database", "postgres_server"]
pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

QUEUE = "cm"
SEEDS = [20_261]
ROOMS, PEOPLE, TURNS = 40, 5, 10
AT_ONCE = 12  # rooms that play at the same time
CRACK_EVERY = 8  # every so many rooms somebody guesses right before the others are done
CRACK_AT = 46
FLEET = {
    "intake": "intake",
    "updates": "updates",
    "score-1": "score,feed,clock",
    "score-2": "score,feed,clock",
    "sender": "send,archive",
}
KILLS = {"intake": 2, "updates": 3, "score-1": 4, "score-2": 4, "sender": 4}
RECORDS = ROOMS * PEOPLE * TURNS * 2  # of the feed, about: the clock that the killing goes by
SETTINGS = {
    "lease_ms": 4_000,  # long enough for a busy machine: a lease that lapses three times kills its job
    "poll_timeout_s": 5,
    "send_rate_per_s": 1_000,
    "send_burst": 1_000,
    "chat_rate_per_s": 100,
    "chat_burst": 100,
    "group_rate_per_min": 1_000,
    "group_burst": 100,
}


@dataclass
class Played:
    """One room's evening: who wrote what in which order, and the game that it was written for."""

    chat_id: int
    game: GameSnapshot
    cracks: bool
    sent: list[tuple[str, tuple[str, ...]]] = field(default_factory=list[tuple[str, tuple[str, ...]]])


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_accepted_guess_counts_once_whoever_is_killed(
    start_valkey: Callable[..., ValkeyServer], fleet_database: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    async with ground(start_valkey(aof=True).url, fleet_database, tmp_path, **SETTINGS) as place:
        for name, roles in FLEET.items():
            await place.fleet.start(name, roles)
        await place.fleet.ready()
        async with People(place.telegram.url) as people, asyncio.TaskGroup() as tasks:
            seats = asyncio.Semaphore(AT_ONCE)
            evenings = [tasks.create_task(evening(place, people, seats, n, chance.random())) for n in range(ROOMS)]
            tasks.create_task(killings(place, chance))
        played = [task.result() for task in evenings]
        assert sum(len(one.sent) for one in played) == ROOMS * PEOPLE * TURNS
        await until_quiet(place, played)
        assert {name: member.kills for name, member in place.fleet.members.items()} == KILLS

        story = await feed(place)
        for one in played:
            await check_game(place, one, [r for r in story if r.text("game") == one.game.id])
        async with People(place.telegram.url) as people:
            for one in played:
                await check_chat(place, people, one)
        for queue in (place.play.options.inbox, QUEUE, place.play.options.outbound):
            assert await audit(place.play.bus, queue) == []
        assert await place.fleet.dismiss() == dict.fromkeys(FLEET, 0)


async def evening(place: Ground, people: People, seats: asyncio.Semaphore, number: int, seed: float) -> Played:
    """Five people in a group play a game of ten turns each; it is ended by its starter or by a crack."""
    chance = random.Random(seed)
    async with seats:
        members = [await people.add_person(f"P{number}-{i}") for i in range(PEOPLE)]
        chat_id = await people.add_group(f"Room {number}", members, bot_admin=True)
        await people.send(members[0], chat_id, "/play classic")

        async def live() -> GameSnapshot | None:
            place.fleet.check()
            room = await rooms.find(place.play, chat_id, None)
            return room and await games.live_game(place.play, room.id)

        game = await until(live, 300, place.fleet.report)
        raw = await place.play.bus.execute("HGET", keys.secret(QUEUE, game.id), "tokens")
        secret = msgspec.json.decode(raw, type=tuple[str, ...])
        played = Played(chat_id, game, cracks=number % CRACK_EVERY == 0)
        for turn in range(TURNS):
            for i, member in enumerate(members):
                code = secret
                while code == secret and not (played.cracks and turn * PEOPLE + i + 1 == CRACK_AT):
                    code = tuple(chance.sample(game.settings.palette, game.settings.length))
                played.sent.append((f"P{number}-{i}", code))
                await people.send(member, chat_id, "".join(code))

        async def all_in() -> bool:
            place.fleet.check()
            seen = await games.read(place.play, game.id)
            taken = await place.play.bus.execute("HGET", keys.game(QUEUE, game.id), "seq")
            return seen is not None and (seen.state != "open" or int(taken) == len(played.sent))

        await until(all_in, 300, place.fleet.report)
        if not played.cracks:
            await people.send(members[0], chat_id, "/end")
        return played


async def killings(place: Ground, chance: random.Random) -> None:
    """Kill every member as often as planned, each time at a random point of the progress."""
    plan = sorted((chance.uniform(0.02, 0.9), name) for name, times in KILLS.items() for _ in range(times))
    for share, name in plan:

        async def far_enough(share: float = share) -> bool:
            return await progress(place) >= share * RECORDS

        await until(far_enough, 600, place.fleet.report)
        await place.fleet.replace(name)


async def progress(place: Ground) -> int:
    return await place.play.bus.execute("XLEN", keyspace.of(QUEUE).stream(keys.FEED))


async def until_quiet(place: Ground, played: Sequence[Played]) -> None:
    """Until every game is archived, every queue is empty and every group has read the feed."""
    play = place.play
    last = ""

    async def look() -> bool:
        nonlocal last
        place.fleet.check()
        states = Counter([game.state if (game := await games.read(play, p.game.id)) else "gone" for p in played])
        waiting = {
            queue: [counts.pending, counts.active, counts.dead, counts.scheduled if queue != QUEUE else 0]
            for queue in (play.options.inbox, QUEUE, play.options.outbound)
            if (counts := await metrics.counts(play.bus, queue))
        }
        complete = await play.bus.execute("ZCARD", keys.complete(QUEUE))
        groups = await play.bus.execute("XINFO", "GROUPS", keyspace.of(QUEUE).stream(keys.FEED))
        behind = {g[b"name"].decode(): (g[b"pending"], g[b"lag"]) for g in groups}
        last = f"{dict(states)}, {waiting}, unarchived {complete}, feed {behind}"
        dead = [letter for queue, counts in waiting.items() if counts[2] for letter in await dead_letters(place, queue)]
        assert not dead, f"{dead}{place.fleet.report()}"
        return (
            states == {"settled": len(played)}
            and not complete
            and not any(sum(counts) for counts in waiting.values())
            and not any(sum(one) for one in behind.values())
        )

    await until(look, 300, lambda: f"{last}{place.fleet.report()}")


async def dead_letters(place: Ground, queue: str) -> list[tuple[str, dict[str, str]]]:
    """The rows of a queue's dead letters."""
    space = keyspace.of(queue)
    letters = await place.play.bus.execute("ZRANGE", space.key("dead"), 0, 9)
    rows = await place.play.bus.pipeline([("HGETALL", space.row(letter.decode())) for letter in letters])
    return [(queue, {k.decode(): v.decode(errors="replace") for k, v in row.items()}) for row in rows]


async def feed(place: Ground) -> list[Record]:
    """Every record of the feed."""
    records: list[Record] = []
    while True:
        after = f"({records[-1].stream_id}" if records else "-"
        page = await streams.read(place.play.bus, QUEUE, keys.FEED, after, count=1_000)
        records += page
        if len(page) < 1_000:
            return records


async def check_game(place: Ground, played: Played, told: Sequence[Record]) -> None:
    """Stream, feed, tries, board, fold and rows of one game tell the same story, once."""
    play, game_id = place.play, played.game.id
    records = await read_records(play.store, game_id)
    events = [views.event_of(record) for record in records]
    accepted = [event for event in events if isinstance(event, GuessAccepted)]
    scored = [event for event in events if isinstance(event, GuessScored)]
    row = await read_game(play.store, game_id)
    assert row is not None

    # what was written is what was accepted, in the order in which it was written
    names = [event.name for event in accepted]
    assert [event.seq for event in accepted] == list(range(1, len(accepted) + 1))
    assert names == [name for name, _ in played.sent[: len(names)]]
    assert len(accepted) >= CRACK_AT if played.cracks else len(accepted) == len(played.sent)
    codes = {event.seq: event.codes for event in scored if event.codes}
    assert all(codes[seq] == played.sent[seq - 1][1] for seq in codes)

    # each accepted guess got one answer: its score, or that it came too late
    refused = [m for m in told if m.text("kind") == GuessRefused.kind]
    late = [msgspec.json.decode(record.fields["data"])["guess"] for record in refused]
    answered = Counter([event.guess for event in scored] + late)
    assert answered == Counter(event.guess for event in accepted)
    cut = CRACK_AT if played.cracks else len(accepted)
    assert {event.seq for event in scored} >= set(range(1, cut + 1))
    assert (row.reason, row.cut) == (("cracked", cut) if played.cracks else ("ended", None))

    # the feed tells what the stream tells, and besides it only of guesses that came after the end
    kept = {record.id for record in records}
    assert [record.id for record in told if record.id in kept] == [record.id for record in records]
    assert all(record.text("kind") == GuessRefused.kind for record in told if record.id not in kept)
    once = Counter(record.kind for record in records)
    assert (once["game.opened"], once["game.closed"], once["game.settled"]) == (1, 1, 1)

    # no try is lost or charged twice
    home = keys.of_game(play.options, game_id, played.game.room)
    tries = await play.bus.execute("HGETALL", home[5])
    charged = Counter(event.player for event in accepted)
    assert {player.decode(): int(count) for player, count in tries.items()} == charged
    for player, count in charged.items():
        assert sorted(e.try_no for e in accepted if e.player == player) == list(range(1, count + 1))
    requests, outstanding = await play.bus.pipeline([("HLEN", home[6]), ("ZCARD", home[7])])
    ends = 0 if played.cracks else 1  # /end is a remembered request as well
    assert (requests, outstanding) == (len(accepted) + ends, 0)

    # the live board, the fold and the rows
    counted = [event for event in scored if event.seq <= cut]
    best: dict[str, int] = {}
    for event in counted:
        best[event.player] = max(best.get(event.player, 0), event.score.total * 10**9 - event.seq)
    board = await play.bus.execute("ZRANGE", home[9], 0, -1, "WITHSCORES")
    assert {player.decode(): int(score) for player, score in board} == best
    state = await views.view(play, game_id)
    assert state is not None
    assert state.commitment_holds()
    assert [r.guess for r in state.counted] == [event.guess for event in sorted(counted, key=lambda e: e.seq)]
    assert [(g.id, g.player, g.seq, g.try_no, g.void) for g in row.guesses] == [
        (e.guess, e.player, e.seq, e.try_no, e.seq > cut) for e in accepted
    ]
    assert {(s.player, s.best_total * 10**9 - (s.best_seq or 0)) for s in row.standings} == set(best.items())
    assert row.winner == (accepted[CRACK_AT - 1].player if played.cracks else None)


async def check_chat(place: Ground, people: People, played: Played) -> None:
    """The result was told once, or once more by a sender that was killed; the last board shows the end."""
    row = await read_game(place.play.store, played.game.id)
    state = await views.view(place.play, played.game.id)
    assert row is not None
    assert row.nonce is not None
    assert state is not None
    texts = [message.get("text", "") for message in await people.messages(played.chat_id, raw=True)]
    assert sum(row.nonce in text for text in texts) in (1, 2)
    board = html.unescape(re.sub(r"<[^>]+>", "", board_view.draw(load_texts().of("en"), state)))
    assert board in texts, (board, texts[-5:])
