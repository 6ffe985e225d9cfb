"""The product as people play it: over HTTP, in the chats, to every end that a game has; and what the archive keeps.

Nobody here knows a code: it is cracked from what the boards show, by people who think (`solver`). What is expected of
scores, tables and points is worked out from the rules alone, once a code is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import aiohttp
import pytest

from codemojex.local_telegram.server import DEFAULT_TOKEN
from codemojex.store.engine import Store, close, open_store
from codemojex.store.history import read_game
from codemojex.store.records import ArchivedGame
from tests.support.telegram import Json, People, buttons
from tests.system import solver
from tests.system.company import WAIT_S, Company, Game, Result, says
from tests.system.product import Product

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
LETTERS = {"G": solver.HIT, "Y": solver.NEAR, "-": solver.MISS}
QUICK_TRIES = 8
CLASSIC_TRIES = 12  # what shall not be cracked is classic: one guess in 665,280 is right
HASTY_S = 25


def counted(game: Game, result: Result) -> list[tuple[str, str]]:
    """The guesses that count: all up to the first that is the code."""
    codes = [code for _, code in game.played]
    return game.played[: codes.index(result.code) + 1] if result.code in codes else game.played


def expected_table(game: Game, result: Result, tries: int, team: bool = False) -> list[tuple[str, int, int, int]]:
    """Who (a team is `Team`), best total, tries and points, from the best to the last, by the rules."""
    lines: dict[str, list[tuple[int, int]]] = {}
    for at, (name, code) in enumerate(counted(game, result)):
        lines.setdefault("Team" if team else name, []).append((-solver.total(result.code, code), at))
    table: list[tuple[str, int, int, int]] = []
    for name, guesses in sorted(lines.items(), key=lambda line: (*min(line[1]), len(line[1]))):
        best = -min(guesses)[0]
        perfect = 100 * game.length
        points = min(200, 100 + 10 * (tries - len(guesses))) if best == perfect else best * 50 // perfect
        table.append((name, best, len(guesses), points))
    return table


def assert_table(game: Game, result: Result, tries: int, team: bool = False) -> None:
    """The result's table says rank, name, tries and points of everybody."""
    expected = expected_table(game, result, tries, team)
    assert len(result.standings) == len(expected), result.text
    for rank, (line, (name, best, count, points)) in enumerate(zip(result.standings, expected, strict=True), 1):
        assert line.startswith(f"{rank}. {name} – "), line
        assert f" {best} ●" in line, line
        assert f" · {count} {'try' if count == 1 else 'tries'} · +{points} season point" in line, line


async def archived(store: Store, game_id: str) -> ArchivedGame:
    """The game in the archive, as soon as it is there."""
    async with asyncio.timeout(WAIT_S):
        while (found := await read_game(store, game_id)) is None:
            await asyncio.sleep(0.1)
    return found


async def assert_archived(
    store: Store, game: Game, result: Result, reason: str, tries: int, *, team: bool = False
) -> None:
    """The archive holds the game as it was played: code, proof, guesses with their scores, and the final table."""
    kept = await archived(store, game.id)
    assert (kept.reason, kept.state) == (reason, "settled")
    assert ("".join(kept.secret or ()), kept.nonce) == (result.code, result.nonce)
    assert kept.commitment == result.commitment
    assert kept.room.chat_id == game.chat
    names = {player.id: player.name for player in kept.players}
    guesses = [guess for guess in kept.guesses if not guess.void]
    assert [(names[guess.player], "".join(guess.code)) for guess in guesses] == counted(game, result)
    for guess in guesses:
        code = "".join(guess.code)
        assert guess.total == solver.total(result.code, code)
        assert (guess.exact, guess.misplaced) == (solver.exact(result.code, code), solver.misplaced(result.code, code))
        assert "".join(LETTERS[tile] for tile in guess.tiles or "") == solver.tiles(result.code, code)
    table = {(names[s.player], s.rank, s.best_total, s.tries, s.points) for s in kept.standings}
    members = {name for name, _ in counted(game, result)}
    assert table == {
        (member, rank, best, count, points)
        for rank, (name, best, count, points) in enumerate(expected_table(game, result, tries, team), 1)
        for member in (members if team else {name})
    }


async def assert_revealed(game: Game, result: Result) -> str:
    """The code is told at the end and never before, and is the one that was promised; the final board."""
    assert result.fair
    assert result.commitment == game.commitment  # as the first board showed it
    board = await game.board("🏁", f"The code was {result.code}")
    rows = solver.rows(board)
    assert [(row.name, row.code) for row in rows] in (counted(game, result), [("", c) for _, c in game.played]), board
    assert [row.signs for row in rows] == [solver.everything(result.code, row.code) for row in rows]
    assert await game.kept_its_secret(result)
    return board


async def verified(game: Game, who: int) -> None:
    """/verify repeats the proof for whoever asks."""
    asked = await game.people.send(who, game.chat, "/verify")
    told = await says(game.people, game.chat, "I played fair", after=asked["message_id"])
    result = await game.result()
    assert all(part in told["text"] for part in (result.code, result.nonce, result.commitment))


async def send_as_bot(product: Product, **fields: object) -> Json:
    """Send a message with the bot's own token: a composer in a group, which no honest way leads to."""
    url = f"{product.url}/bot{DEFAULT_TOKEN}/sendMessage"
    async with aiohttp.ClientSession() as session, session.post(url, json=fields) as answer:
        return (await answer.json())["result"]


@pytest.fixture
def hasty() -> Iterator[Product]:
    """A product whose games last some seconds only."""
    product = Product(CODEMOJEX_GAME_DURATION_S=HASTY_S)
    try:
        yield product.start()
    finally:
        product.close()


async def test_a_race_is_cracked_from_what_its_board_shows(company: Company, store: Store) -> None:
    people, group = company.people, company.group
    game, rows = await company.play_a_round(company.ada, "/play quick")
    await game.board("Quick · race – 4 of 8 emojis", "Reply with 4 emojis")
    assert len(game.palette) == 8
    asked = await people.send(company.boris, group, "/verify")
    live = await says(people, group, "fingerprint of the code", after=asked["message_id"])
    assert game.commitment in live["text"]
    assert [(row.name, row.code) for row in rows] == game.played
    standings = [line for line in (await game.board("Standings")).splitlines() if line[:2] in ("1.", "2.", "3.")]
    strengths = [(line.count(solver.HIT), line.count(solver.NEAR)) for line in standings]
    assert len(standings) == 3
    assert strengths == sorted(strengths, reverse=True)
    assert f"1 {game.played[1][1]} {rows[1].signs}" == await game.press(company.boris, "My guesses")
    assert "in their order" in await game.press(company.chen, "Rules")
    await game.crack(company.three, rows)
    result = await game.result("cracked the code!")
    winner, code = counted(game, result)[-1]
    assert (result.code, result.ending) == (code, f"{winner} cracked the code!")
    assert_table(game, result, QUICK_TRIES)
    await assert_revealed(game, result)
    await verified(game, company.chen)
    asked = await people.send(company.ada, group, "/history")
    history = await says(people, group, "Your guesses", after=asked["message_id"])
    assert [row.code for row in solver.rows(history["text"])] == [c for n, c in counted(game, result) if n == "Ada"]
    await assert_archived(store, game, result, "cracked", QUICK_TRIES)


async def test_a_team_shares_its_tries_and_the_win(company: Company, store: Store) -> None:
    game, rows = await company.play_a_round(company.boris, "/play team quick")
    await game.board("Quick · team", "Tries left: 5", "1. Team – ")
    await game.crack(company.three, rows)
    result = await game.result("The team cracked the code, thanks to ")
    assert result.ending == f"The team cracked the code, thanks to {game.played[-1][0]}!"
    assert_table(game, result, QUICK_TRIES, team=True)
    await assert_revealed(game, result)
    await assert_archived(store, game, result, "cracked", QUICK_TRIES, team=True)


async def test_a_solo_game_is_cracked_with_buttons_and_played_again(company: Company, store: Store) -> None:
    people, dora = company.people, company.dora
    welcome = await says(people, dora, "Pick a game")
    await people.press_text(dora, dora, welcome["message_id"], "Quick")
    game = Game.on(people, dora, await says(people, dora, "Quick · solo", "No guess yet"))
    over, rows = False, list[solver.Row]()
    while not over:
        code = solver.best(solver.candidates(game.palette, 4, rows)) if rows else game.palette[:4]
        assert await game.tap(dora, "Dora", code) == f"Guess {len(game.played)} is in!"
        over, rows = await game.scored()
    result = await game.result("Dora cracked the code!")
    assert_table(game, result, QUICK_TRIES)
    await assert_revealed(game, result)
    await assert_archived(store, game, result, "cracked", QUICK_TRIES)
    await people.wait_for_message(dora, lambda m: any("again" in b["text"] for b in buttons(m)), WAIT_S)
    await people.press_text(dora, dora, game.message_id, "Play again")
    again = Game.on(people, dora, await says(people, dora, "Quick · solo", "No guess yet", after=game.message_id))
    assert again.id != game.id
    assert again.commitment != game.commitment
    await people.send(dora, dora, "/end")
    ended = await again.result("The game was ended.")
    assert ended.fair
    await assert_archived(store, again, ended, "ended", QUICK_TRIES)


async def until_out_of_tries(store: Store, game: Game, turns: Sequence[tuple[int, str]], team: bool = False) -> None:
    """Everybody guesses blindly; nobody knows how well before the end."""
    for at, (who, name) in enumerate(turns):
        await game.guess(who, name, game.palette[at : at + 6] if at < 7 else game.palette[at - 7 : at - 1][::-1])
    result = await game.result("All tries are used up, the code stayed secret.")
    assert_table(game, result, 3, team)
    await assert_revealed(game, result)
    await assert_archived(store, game, result, "out_of_tries", 3, team=team)


async def test_games_end_when_all_tries_are_used_up(company: Company, store: Store) -> None:
    # A blind guess is right once in 665,280 times; three tries each.
    team = await company.play(company.chen, await company.another_group(), "/play blind team")
    solo = await company.play(company.dora, company.dora, "/play blind")
    race = await company.play(company.ada, company.group, "/play blind")
    for _ in range(3):
        await race.guess(company.boris, "Boris", race.palette[len(race.played) :][:6])
    waiting = await race.board("Everybody who plays is out of tries", "unless somebody joins.")
    assert [row.signs for row in solver.rows(waiting)] == ["·"] * 3
    await race.guess(company.chen, "Chen", race.palette[4:10])
    assert "unless somebody joins" not in await race.board("Chen 1: " + race.palette[4:10])
    await company.people.send(company.ada, company.group, "/end")
    assert_table(race, await race.result("The game was ended."), 3)
    async with asyncio.TaskGroup() as games:
        games.create_task(until_out_of_tries(store, team, company.three, team=True))
        games.create_task(until_out_of_tries(store, solo, [(company.dora, "Dora")] * 3))


async def test_who_has_no_tries_left_is_told_and_charged_nothing(company: Company, store: Store) -> None:
    game = await company.play(company.ada, company.group, "/play blind")
    for who, name in [company.three[1], *[company.three[0]] * 3]:
        await game.guess(who, name, game.palette[len(game.played) :][:6])
    await company.people.send(company.ada, company.group, game.palette[5:11])
    await says(company.people, company.group, "You have no tries left in this game.")
    _, rows = await game.scored()
    assert [(row.name, row.try_no) for row in rows] == [("Boris", 1), ("Ada", 1), ("Ada", 2), ("Ada", 3)]
    await company.people.send(company.ada, company.group, "/end")
    result = await game.result("The game was ended.")
    await assert_archived(store, game, result, "ended", 3)


async def test_games_are_ended_by_those_who_may(company: Company, store: Store) -> None:
    people, group, attic = company.people, company.group, await company.another_group()
    race = await company.play(company.boris, group, "/play classic")
    team = await company.play(company.chen, attic, "/play team classic")
    solo = await company.play(company.dora, company.dora, "/play expert")
    _, rows = await race.open_round(company.three)
    before = [row.signs for row in rows]
    await team.guess(company.chen, "Chen", team.palette[:6])
    await solo.guess(company.dora, "Dora", solo.palette[:6])
    await people.send(company.chen, group, "/end")
    await says(people, group, "Only who started the game and admins can end it.")
    await asyncio.gather(team.scored(), solo.scored())
    await people.send(company.boris, group, "/end")  # who started it
    await people.send(company.ada, attic, "/end")  # who owns the group
    await people.send(company.dora, company.dora, "/end")
    for game, tries in ((race, CLASSIC_TRIES), (team, CLASSIC_TRIES), (solo, 15)):
        result = await game.result("The game was ended.")
        board = await assert_revealed(game, result)
        assert_table(game, result, tries, team=game is team)
        await assert_archived(store, game, result, "ended", tries, team=game is team)
        if game is race:
            assert [row.signs.split(" ", 1)[1] for row in solver.rows(board)] == before  # what was shown was right
    asked = await people.send(company.chen, group, "/guess " + race.palette[:6])
    await says(people, group, "No game is on.", after=asked["message_id"])


async def test_three_votes_end_a_game(company: Company, store: Store) -> None:
    people, group = company.people, company.group
    game = await company.play(company.ada, group, "/play team classic")
    await game.guess(company.boris, "Boris", game.palette[2:8])
    await people.send(company.boris, group, "/vote_end")
    await says(people, group, "1 of 3 votes")
    assert await game.press(company.boris, "Vote") == "Your vote counts already: 1 of 3."
    assert await game.press(company.ada, "Vote") == "Vote counted: 2 of 3."
    assert await game.press(company.chen, "Vote") == "The vote has ended the game."
    result = await game.result("You voted to end the game.")
    await assert_revealed(game, result)
    await assert_archived(store, game, result, "voted", CLASSIC_TRIES, team=True)


async def test_a_composer_serves_its_owner_only(company: Company, store: Store, product: Product) -> None:
    people, group, boris = company.people, company.group, company.boris
    game = await company.play(company.ada, group, "/play classic")
    link = next(b["url"] for b in buttons(await game.message()) if "url" in b)
    await people.start(boris, link.partition("start=")[2])
    composer = await says(people, boris, "Your guess for The Den", "Tries left: 12")
    place = (boris, composer["message_id"])
    assert await game.tap(boris, "Boris", game.palette[1:7], place) == "Guess 1 is in!"
    _, rows = await game.scored()
    own = await says(people, boris, "Your guess for The Den", "Tries left: 11", rows[0].signs)
    assert own["message_id"] == composer["message_id"]
    await game.guess(company.ada, "Ada", game.palette[2:8])
    await says(people, boris, "Your guess for The Den", "Ada 1:", "Tries left: 11")
    copy = await send_as_bot(product, chat_id=group, text="a copy", reply_markup=own["reply_markup"])
    for button in buttons(own):
        answer = await people.press(company.ada, group, copy["message_id"], button["callback_data"])
        assert answer is not None
        assert answer["text"] == "This button is not for you. Write to me in private to play."
    await people.send(company.ada, group, "/end")
    result = await game.result("The game was ended.")
    assert game.played == [("Boris", game.palette[1:7]), ("Ada", game.palette[2:8])]
    over = await says(
        people, boris, "Your guess for The Den", "Ada 1:", "Boris 1:", "🏁", f"The code was {result.code}"
    )
    assert (over["message_id"], buttons(over)) == (composer["message_id"], [])
    await assert_revealed(game, result)
    assert await game.kept_its_secret(result, boris)
    await assert_archived(store, game, result, "ended", CLASSIC_TRIES)


async def test_games_end_at_their_deadline(hasty: Product) -> None:
    async with People(hasty.url) as people:
        store = await open_store(hasty.database)
        company = await Company.gather(people)
        race = await company.play(company.chen, await company.another_group(), "/play blind")
        games = [
            await company.play(company.ada, company.group, "/play classic"),
            await company.play(company.boris, await company.another_group(), "/play classic team"),
            await company.play(company.dora, company.dora, "/play classic"),
        ]
        for game, (who, name) in zip(games, [*company.three[:2], (company.dora, "Dora")], strict=True):
            await game.guess(who, name, game.palette[:6])
        await until_out_of_tries(store, race, company.three * 3)
        for game in games:
            result = await game.result("Time is up, the code stayed secret.")
            team = game is games[1]
            assert_table(game, result, CLASSIC_TRIES, team)
            await assert_revealed(game, result)
            await assert_archived(store, game, result, "deadline", CLASSIC_TRIES, team=team)
            kept = await archived(store, game.id)
            assert kept.closed_at is not None
            assert HASTY_S <= (kept.closed_at - kept.opened_at).total_seconds() < HASTY_S + WAIT_S
        await close(store)
