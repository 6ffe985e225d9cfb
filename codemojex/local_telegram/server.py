"""Starts and stops one local Telegram.

`start` returns when the server answers; `stop` saves the state and lets every waiting call go. A second server on
the same port takes the next free one; only loopback addresses are accepted unless remote ones are allowed explicitly.
"""

import asyncio
import contextlib
import errno
import ipaddress
import re
from pathlib import Path

from aiohttp import web

from codemojex.local_telegram.api.bot_api import BotApi
from codemojex.local_telegram.api.control import Control
from codemojex.local_telegram.api.delivery import push_updates
from codemojex.local_telegram.pages import Pages, guard
from codemojex.local_telegram.state.clock import TelegramClock
from codemojex.local_telegram.state.demo import furnish
from codemojex.local_telegram.state.events import Events
from codemojex.local_telegram.state.faults import Faults
from codemojex.local_telegram.state.limits import SendLimits
from codemojex.local_telegram.state.model import BotAccount, State
from codemojex.local_telegram.state.storage import Storage
from codemojex.local_telegram.state.updates import UpdateQueue
from codemojex.local_telegram.state.world import World

NEXT_PORTS = 20  # tried one after the other when a port is busy, before any free one is taken
DEFAULT_TOKEN = "4200000001:local-telegram-token-of-nobody-000"  # opens nothing but this loopback server


class LocalTelegram:
    """A Telegram for one bot.

    `port` 0 is any free port; a busy one gives way to the next that is free. `data_file` None forgets everything at
    stop. `strict` enforces Telegram's sending limits. `allow_remote` permits an address other than loopback: whoever
    reaches the port is then every person.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = DEFAULT_TOKEN,
        data_file: str | Path | None = None,
        strict: bool = True,
        *,
        bot_username: str = "codemojex_bot",
        bot_name: str = "Codemojex",
        allow_remote: bool = False,
    ) -> None:
        if not re.fullmatch(r"\d{1,19}:[A-Za-z0-9_-]+", token):
            raise ValueError("the token must look like 12345:letters, as Telegram's do")
        self._local = _is_loopback(host)
        if not self._local and not allow_remote:
            raise ValueError(f"{host} is not a loopback address; pass allow_remote=True to serve the network")
        self._host, self._port = host, port
        self._token, self._strict = token, strict
        self._storage = Storage(Path(data_file) if data_file is not None else None)
        self._bot = BotAccount(int(token.partition(":")[0]), bot_username, bot_name)
        self._runner: web.AppRunner | None = None
        self._pusher: asyncio.Task[None] | None = None
        self._world: World | None = None

    @property
    def token(self) -> str:
        """The bot's token."""
        return self._token

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        if self._runner is None:
            raise RuntimeError("the local Telegram is not started; await start() first")
        return int(self._runner.addresses[0][1])

    @property
    def url(self) -> str:
        """The address without a final slash: the base of a bot's TelegramAPIServer, and the page."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Load the state and listen."""
        if self._runner is not None:
            raise RuntimeError("the local Telegram is already started")
        state = self._storage.open(State(bot=self._bot))
        if state.bot.user_id != self._bot.user_id:
            self._storage.abandon()
            raise RuntimeError("the data file belongs to another bot; use its token or another file")
        self._world = world = self._new_world(state)
        app = web.Application(middlewares=[guard(self._local)], client_max_size=4 * 1024 * 1024)
        for part in (BotApi(world, self._token), Control(world), Pages(world)):
            app.add_routes(part.routes())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._listen(runner)
        except BaseException:
            await runner.cleanup()
            self._storage.abandon()
            raise
        self._runner = runner
        # Lives from start() to stop(), which awaits it: no block of code spans both.
        self._pusher = asyncio.create_task(push_updates(world))  # noqa: TID251

    def furnish(self) -> bool:
        """Add three people and a group to an empty Telegram; False when it is not empty. Call it after `start`."""
        if self._world is None:
            raise RuntimeError("the local Telegram is not started; await start() first")
        return furnish(self._world)

    async def stop(self) -> None:
        """Let every waiting call go, save, and free the port. A second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is None or self._world is None:
            return
        self._world.events.close()
        self._world.updates.wake()
        try:
            if self._pusher is not None:
                self._pusher.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._pusher
        finally:  # whatever became of the pusher
            await runner.cleanup()
            self._storage.close()

    def _new_world(self, state: State) -> World:
        clock = TelegramClock()
        return World(
            state=state,
            clock=clock,
            updates=UpdateQueue(state, clock, self._storage.touch),
            events=Events(),
            faults=Faults(),
            storage=self._storage,
            limits=SendLimits() if self._strict else None,
        )

    async def _listen(self, runner: web.AppRunner) -> None:
        last = min(self._port + NEXT_PORTS, 65_535)
        for port in (*range(self._port, last + 1), 0) if self._port else (0,):
            try:
                await web.TCPSite(runner, self._host, port).start()
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port == 0:
                    raise


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
