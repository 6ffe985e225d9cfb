"""`codemojex play` and `run` as commands: continue where they were, end at once, say in one line what is wrong.

Whole processes, started and ended as people and machines do; what is left behind is looked for among all processes.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codemojex.local_telegram import LocalTelegram
from codemojex.store.engine import close, open_store
from codemojex.store.history import read_game
from codemojex.store.migrate import migrate
from tests.architecture.sources import ROOT
from tests.support.telegram import Json, People
from tests.support.valkey import ValkeyServer
from tests.system.company import WAIT_S, Company, Game
from tests.system.product import START_S, End, Product, environment

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]
CTRL_C_S = 3.0
SLACK_S = 0.5  # of the clocks and of looking every 20 ms
TOKEN = "4200000001:the-right-half-of-a-token"


@pytest.fixture
def product_in() -> Iterator[Callable[..., Product]]:
    """Make products of this test's own; whatever they leave behind ends with it."""
    made: list[Product] = []

    def make(**arguments: object) -> Product:
        made.append(Product(**arguments))
        return made[-1]

    yield make
    for product in made:
        product.close()


def assert_ended_well(end: End, product: Product) -> None:
    """Code 0, no traceback, within three seconds of a processor's time, and nothing of it is left."""
    assert end.code == 0, product.output
    assert "Traceback" not in product.output, product.output
    assert end.took_s - end.starved_s <= CTRL_C_S + SLACK_S, f"{end}\n{product.output}"
    assert product.processes() == {}


def talk(messages: list[Json]) -> list[tuple[int, str]]:
    """What people wrote."""
    return [(m["message_id"], m["text"]) for m in messages if not m["from"]["is_bot"] and "text" in m]


async def begun(people: People) -> tuple[Company, Game, Game]:
    """A race with three guesses on its board, and a solo game with one guess and two emojis in its composer."""
    company = await Company.gather(people)
    race, _ = await company.play_a_round(company.ada, "/play quick")
    solo = await company.play(company.dora, company.dora, "/play classic")
    await solo.tap(company.dora, "Dora", solo.palette[:6])
    await solo.scored()
    for token in (0, 2):
        await people.press(company.dora, company.dora, solo.message_id, f"c:{solo.id}:{token}:1", wait_s=WAIT_S)
    await solo.board(f"✏️ {solo.palette[0]} {solo.palette[2]} ▫️")
    return company, race, solo


async def continued(product: Product, company: Company, race: Game, solo: Game) -> None:
    """The two games go on in the product that was started again: same messages, same tries, nothing lost."""
    async with People(product.url) as people:
        company.people = race.people = solo.people = people
        over, rows = await race.scored()
        if not over:  # the guess on its way may have been lucky
            assert [(row.name, row.code) for row in rows] == race.played
            await race.crack(company.three, rows)
        result = await race.result("cracked the code!")
        assert (result.fair, result.commitment) == (True, race.commitment)
        await race.board("🏁", f"The code was {result.code}")
        boards = [m for m in await people.messages(company.group) if race.commitment in m.get("text", "")]
        assert [m["message_id"] for m in boards if "🎯" in m["text"]] == [race.message_id]
        await solo.board("1: " + solo.palette[:6], f"✏️ {solo.palette[0]} {solo.palette[2]} ▫️", "Tries left: 11")
        for token in (4, 6, 8, 10):
            await people.press(company.dora, company.dora, solo.message_id, f"c:{solo.id}:{token}:1", wait_s=WAIT_S)
        sent = await people.press(company.dora, company.dora, solo.message_id, f"c:{solo.id}:send:1", wait_s=WAIT_S)
        assert sent is not None
        assert sent["text"] == "Guess 2 is in!"
        await solo.board("2: " + solo.palette[0:12:2])
        store = await open_store(product.database)
        async with asyncio.timeout(WAIT_S):
            while (kept := await read_game(store, race.id)) is None:
                await asyncio.sleep(0.1)
        await close(store)
        counted = [guess for guess in kept.guesses if not guess.void]
        assert ["".join(guess.code) for guess in counted] == [code for _, code in race.played]
        assert [guess.try_no for guess in counted][:3] == [1, 1, 1]


async def test_ctrl_c_ends_all_and_the_next_start_continues_the_game(product_in: Callable[..., Product]) -> None:
    product = product_in().start()
    async with People(product.url) as people:
        company, race, solo = await begun(people)
        await race.guess(company.ada, "Ada", race.palette[1:5])  # on its way while everything ends
        before = talk(await people.messages(company.group))
    assert_ended_well(product.interrupt(), product)
    product.start()
    async with People(product.url) as people:
        assert talk(await people.messages(company.group)) == before
    await continued(product, company, race, solo)
    assert_ended_well(product.interrupt(), product)
    # All that it wrote is in one directory, and `make clean` removes it.
    assert [path.name for path in product.directory.iterdir() if not path.name.startswith("output")] == [".codemojex"]
    shutil.copy2(ROOT / "Makefile", product.directory / "Makefile")
    subprocess.run(["make", "clean"], cwd=product.directory, check=True, capture_output=True, timeout=60)
    assert not product.data.exists()


async def test_the_next_start_takes_over_from_a_product_that_was_killed(product_in: Callable[..., Product]) -> None:
    product = product_in().start()
    async with People(product.url) as people:
        company, race, solo = await begun(people)
        await saved(product, race, solo)
    product.kill()
    left = product.processes()
    product.start()
    serving = [pid for pid, command in product.processes().items() if "valkey" in command]
    assert len(serving) == 1
    assert serving[0] not in left
    await continued(product, company, race, solo)
    assert_ended_well(product.interrupt(), product)


async def saved(product: Product, *games: Game) -> None:
    """The local Telegram has written down what the chats show now; it does so within half a second."""
    shown = [(await game.message())["text"].splitlines()[-1] for game in games]
    async with asyncio.timeout(WAIT_S):
        while True:
            text = (product.data / "play" / "telegram.json").read_text(encoding="utf-8")
            if all(line in text for line in shown):
                return
            await asyncio.sleep(0.1)


async def test_a_second_instance_runs_beside_the_first(product_in: Callable[..., Product], tmp_path: Path) -> None:
    first = product_in()
    first.start()
    port = int(first.url.rpartition(":")[2])
    second = product_in(port=port, data=first.data).start()
    assert second.url != first.url
    assert {path.name for path in first.data.iterdir() if path.is_dir()} >= {"play", "play-2"}
    async with People(first.url) as here, People(second.url) as there:
        ours = await Company.gather(here)
        game = await ours.play(ours.ada, ours.group, "/play classic")
        code, _, shown = await codemojex(first.directory, "status")
        assert (code, "messages to Telegram" in shown, "…" in shown) == (0, True, False), shown  # nothing is cut
        code, _, found = await codemojex(first.directory, "health", "--roles", "intake,score")
        assert (code, found.count("ok  ")) == (0, 5), found
        assert len((await there.state())["people"]) < len((await here.state())["people"])
        assert second.interrupt().code == 0, second.output
        await game.open_round(ours.three)  # the other one does not mind
    assert_ended_well(first.interrupt(), first)


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


async def codemojex(directory: Path, *arguments: str, **settings: object) -> tuple[int, str, str]:
    """Run the command to its end: code, what it said on standard error, and all that it wrote."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "codemojex", *arguments),
        cwd=directory,
        env=environment(**settings),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(START_S + WAIT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, err.decode(), out.decode() + err.decode()


def assert_one_line(answer: tuple[int, str, str], code: int, *parts: str) -> None:
    """The code, and one line for a person that names what is wrong; no traceback, no secret."""
    found, error, everything = answer
    said = [line for line in error.splitlines() if line.startswith("codemojex: ")]
    assert found == code, everything
    assert len(said) == 1, everything
    assert all(part in said[0] for part in parts), said
    assert "Traceback" not in everything
    assert "right-half" not in everything
    assert "wrong-half" not in everything
    assert "geheim" not in everything


@pytest.fixture
async def database(tmp_path: Path) -> str:
    """A store with its tables."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'store.db'}"
    await migrate(url)
    return url


async def test_telegram_refuses_a_wrong_token_and_run_says_so(
    tmp_path: Path, database: str, start_valkey: Callable[..., ValkeyServer]
) -> None:
    valkey = start_valkey()
    telegram = LocalTelegram(token=TOKEN)
    await telegram.start()
    try:
        settings = {"CODEMOJEX_VALKEY_URL": valkey.url, "CODEMOJEX_DATABASE_URL": database}
        settings |= {"CODEMOJEX_TELEGRAM_API_URL": telegram.url, "BOT_TOKEN": "4200000001:the-wrong-half-of-a-token"}
        answer = await codemojex(tmp_path, "run", **settings)
    finally:
        await telegram.stop()
    assert_one_line(answer, 1, "token", "BOT_TOKEN")


async def test_run_says_when_telegram_is_out_of_reach(
    tmp_path: Path, database: str, start_valkey: Callable[..., ValkeyServer]
) -> None:
    settings = {"CODEMOJEX_VALKEY_URL": start_valkey().url, "CODEMOJEX_DATABASE_URL": database, "BOT_TOKEN": TOKEN}
    url = f"http://127.0.0.1:{closed_port()}"
    answer = await codemojex(tmp_path, "run", "--roles", "send", CODEMOJEX_TELEGRAM_API_URL=url, **settings)
    assert_one_line(answer, 1, "Telegram does not answer", "CODEMOJEX_TELEGRAM_API_URL")


async def test_run_says_when_valkey_is_out_of_reach(tmp_path: Path, database: str) -> None:
    url = f"valkey://someone:geheim@127.0.0.1:{closed_port()}/0"
    settings = {"CODEMOJEX_VALKEY_URL": url, "CODEMOJEX_DATABASE_URL": database, "BOT_TOKEN": TOKEN}
    assert_one_line(await codemojex(tmp_path, "run", **settings), 1, "127.0.0.1", "CODEMOJEX_VALKEY_URL")
    assert not (tmp_path / ".codemojex").exists()


async def test_status_says_when_no_game_is_open(tmp_path: Path) -> None:
    answer = await codemojex(tmp_path, "status")
    assert_one_line(answer, 1, ".codemojex", "codemojex play", "CODEMOJEX_VALKEY_URL")
    assert not (tmp_path / ".codemojex").exists()


async def test_run_says_when_the_database_is_out_of_reach(
    tmp_path: Path, start_valkey: Callable[..., ValkeyServer]
) -> None:
    url = f"postgresql://someone:geheim@127.0.0.1:{closed_port()}/games"
    settings = {"CODEMOJEX_VALKEY_URL": start_valkey().url, "CODEMOJEX_DATABASE_URL": url, "BOT_TOKEN": TOKEN}
    answer = await codemojex(tmp_path, "run", "--roles", "archive", **settings)
    assert_one_line(answer, 1, "127.0.0.1", "database")


@pytest.mark.parametrize(
    ("arguments", "settings", "parts"),
    [
        (["--roles", "intake,scores"], {}, ["no role scores", "score"]),
        ([], {"CODEMOJEX_PORT": "eighty"}, ["CODEMOJEX_PORT", "integer"]),
        ([], {"CODEMOJEX_GRACE": "2"}, ["CODEMOJEX_GRACE", "CODEMOJEX_GRACE_S"]),
        ([], {"BOT_TOKEN": "right-half"}, ["BOT_TOKEN", "@BotFather"]),
    ],
)
async def test_wrong_usage_is_one_line_and_code_2(
    tmp_path: Path, arguments: list[str], settings: dict[str, str], parts: list[str]
) -> None:
    assert_one_line(await codemojex(tmp_path, "run", *arguments, **settings), 2, *parts)


async def test_run_without_a_token_is_one_line_and_code_1(tmp_path: Path, database: str, valkey_url: str) -> None:
    settings = {"CODEMOJEX_VALKEY_URL": valkey_url, "CODEMOJEX_DATABASE_URL": database}
    assert_one_line(await codemojex(tmp_path, "run", **settings), 1, "BOT_TOKEN is missing")
