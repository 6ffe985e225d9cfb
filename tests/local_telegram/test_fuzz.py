"""Whatever is sent: the local Telegram answers, never with an error of its own, and works on as before."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from codemojex.local_telegram import LocalTelegram
from codemojex.local_telegram.api.bot_api import SIMULATED
from codemojex.local_telegram.api.control import Control
from tests.local_telegram.conftest import bot_for, drain
from tests.local_telegram.nonsense import Nonsense
from tests.support.telegram import People

CALLS = 10_000
SEED = int(os.environ.get("CODEMOJEX_TEST_SEED", "20261"))
CONNECTIONS = 8
ANSWER_S = 30.0


class Caller:
    """One connection that sends requests as they are.

    A connection that the server has closed behind its last answer is opened again, as every client does.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer; 0 when the server hung up without one."""
        used = self._streams is not None
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        try:
            async with asyncio.timeout(ANSWER_S):
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = re.search(r"content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
        except (ConnectionError, asyncio.IncompleteReadError):
            self.close()
            return await self.call(request) if used else (0, b"")
        if "connection: close" in head or b"Transfer-Encoding" in request:  # where that one ends, nobody knows
            self.close()
        return int(head.split()[1]), body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@pytest.mark.timeout(240)
@pytest.mark.filterwarnings("ignore:::aiohttp.multipart")
async def test_no_call_is_answered_by_an_error_of_the_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    telegram = LocalTelegram(data_file=tmp_path / "state.json", strict=False)
    await telegram.start()
    async with People(telegram.url) as people:
        ada = await people.add_person("Ada")
        await people.start(ada)
        group = await people.add_group("G", [ada], forum=True, bot_admin=True)
        requests = Nonsense(SEED, telegram.token, ada, group)
        assert requests.paths() == {
            *(f"/bot{telegram.token}/{model.__api_method__}" for model in SIMULATED),
            *(f"/control/{'get:' * (route.method == 'GET')}{route.path[9:]}" for route in Control(None).routes()),  # type: ignore[arg-type]
        }
        wanted = iter([requests.next() for _ in range(CALLS)])
        wrong: list[tuple[int, bytes, bytes]] = []
        statuses: Counter[int] = Counter()

        async def work() -> None:
            caller = Caller(telegram.port)
            for request in wanted:
                try:
                    status, body = await caller.call(request)
                except TimeoutError:
                    caller.close()
                    status, body = 599, b"no answer"
                statuses[status] += 1
                if status == 0 or (status >= 500 and not (status == 501 and b"not simulated" in body)):
                    wrong.append((status, request[:2000], body[:500]))
            caller.close()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(work())
        assert wrong == [], f"{len(wrong)} of {statuses}\n{caplog.text[:3000]}"
        assert statuses[200] > CALLS / 20
        assert statuses[400] > CALLS / 5

        await people.post("clear_faults")
        for look in ("state", "log", "updates", "faults"):
            await people.get(look)
        bot = bot_for(telegram)
        await bot.delete_webhook()
        eve = await people.add_person("Eve")
        await people.start(eve)
        async with asyncio.timeout(ANSWER_S):
            while not any(u.message and u.message.chat.id == eve for u in await drain(bot)):
                await asyncio.sleep(0)
        assert (await bot.send_message(eve, "there you are")).text == "there you are"
        await bot.session.close()
    await telegram.stop()
    again = LocalTelegram(data_file=tmp_path / "state.json", strict=False)
    await again.start()  # everything that was taken could be kept
    await again.stop()
