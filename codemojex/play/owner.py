"""Whose the games of a server are: one bot, one store, one server, for each namespace.

A record in Valkey names the bot and the store; the store's row names the bot, the namespace and the server's data.
Both are written at the first start, and everybody who starts is held to them: two bots, two stores or two servers
would take each other's work in silence. A server that lost its data gets its record again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass

from codemojex.engine.clock import utc
from codemojex.engine.errors import EngineError
from codemojex.engine.waiting import wait
from codemojex.play import keys
from codemojex.play.commands import LUA
from codemojex.play.context import Play
from codemojex.store import deployment
from codemojex.store.deployment import Deployment
from codemojex.store.errors import NotOurs, StoreUnavailable

BEAT_S = 5.0
SEEN_EVERY_S = 15  # how often the store is told that the server is in use
SEEN_S = 60  # so long after it was told, no other server may take the store over
_ELSEWHERE = "a database number or a server of its own, or a name in CODEMOJEX_NAMESPACE"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Claim:
    """Who this process is. `place` says where its server is, without a password.

    `bus` is kept by `assert_owner`: which data this process has worked with so far.
    """

    bot_id: int | None
    place: str
    bus: str | None = None


@dataclass(frozen=True, slots=True)
class _Record:
    bot: int | None
    store: str
    bus: str


async def assert_owner(play: Play, claim: Claim) -> None:
    """See to it that server and store are this bot's and say so. Raises NotOurs.

    It may be called as often as one likes: two reads when all is well. A record that the server lost is written again.
    """
    held, record = await deployment.read(play.store), await _read(play)
    if record is not None:
        _refuse(play, claim, held, record)
        if _settled(play, claim, held, record):
            claim.bus = record.bus
            return
    for _ in range(2):
        if await _claim(play, claim):
            return
    raise RuntimeError("the store's row changes between two claims")


class Ownership:
    """Asserts the owner by `look`, and in `run` on a beat until `stop`."""

    def __init__(self, play: Play, claim: Claim, *, beat_s: float = BEAT_S) -> None:
        self._play = play
        self._claim = claim
        self._beat_s = beat_s
        self._stop = asyncio.Event()

    async def look(self) -> None:
        """Assert it now. Raises NotOurs, or what keeps the server or the store from answering."""
        await assert_owner(self._play, self._claim)

    async def run(self) -> None:
        """Assert it again and again, for a server may lose its data. Raises NotOurs: then this process must end."""
        while not self._stop.is_set():
            await wait(self._stop, self._beat_s)
            try:
                await self.look()
            except (EngineError, StoreUnavailable) as error:  # the workers speak of it; the next beat tries again
                _log.debug("whose the server is cannot be told now: %s", error)

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()


async def _claim(play: Play, claim: Claim) -> bool:
    """Write what is missing, all or nothing; False when the store was taken over and the record is to be written."""
    async with deployment.claiming(play.store) as held:
        record = await _read(play)
        _refuse(play, claim, held, record)
        moved = record is None and held.bus not in (None, claim.bus) and held.place != claim.place
        bus = record.bus if record else secrets.token_hex(16) if moved or held.bus is None else held.bus
        known = (claim.bot_id, held.bot_id, record.bot if record else None)
        held.bot_id = next((bot for bot in known if bot is not None), None)
        lost = held.bus is not None and record is None and not moved
        if not moved:  # else the store is told first: a record without it would be refused for good
            stands, written = await _own(play, held.bot_id, held.store, bus)
            _refuse(play, claim, held, stands)
            bus = stands.bus
            if written:
                text = "the server had lost whose it is: written again" if lost else "this server is this bot's now"
                _log.log(logging.WARNING if lost else logging.INFO, text, extra={"bot": held.bot_id})
        held.namespace, held.bus, held.place = play.options.namespace, bus, claim.place
        held.seen_at = utc(play.clock.now_ms())
    claim.bus = bus
    return not moved


def _settled(play: Play, claim: Claim, held: Deployment, record: _Record) -> bool:
    """Whether nothing is to be written."""
    named = claim.bot_id is None or (held.bot_id is not None and record.bot is not None)
    age_s = _age_s(play, held)
    return named and held.bus is not None and age_s is not None and age_s < SEEN_EVERY_S


def _refuse(play: Play, claim: Claim, held: Deployment, record: _Record | None) -> None:
    """Raise NotOurs when server or store belong to somebody else."""
    here, now = f"the server at {claim.place}", play.options.namespace
    if record is not None and _other(record.bot, claim.bot_id):
        raise NotOurs(
            f"{here} belongs to bot {record.bot}, and this is bot {claim.bot_id}: two bots on one server take each "
            f"other's work; give this one {_ELSEWHERE}"
        )
    if _other(held.bot_id, claim.bot_id):
        raise NotOurs(
            f"{play.store.where} belongs to bot {held.bot_id}, and this is bot {claim.bot_id}: give this one a store "
            "of its own in CODEMOJEX_DATABASE_URL"
        )
    if held.bus is not None and (held.namespace or "") != now:
        raise NotOurs(
            f"{play.store.where} belongs to {_in(held.namespace)}, and this is {_in(now)}: give each namespace a store "
            "of its own in CODEMOJEX_DATABASE_URL"
        )
    if record is not None and record.store != held.store:
        raise NotOurs(
            f"{here} has games that are kept in another store than {play.store.where}: set CODEMOJEX_DATABASE_URL to "
            f"that one, or give this one {_ELSEWHERE}"
        )
    if record is not None and held.bus is not None and record.bus != held.bus:
        raise NotOurs(
            f"{play.store.where} belongs to the games of another server, which was at {held.place}: set "
            "CODEMOJEX_VALKEY_URL to that one, or give this one a store of its own in CODEMOJEX_DATABASE_URL"
        )
    age_s = _age_s(play, held)
    strange = record is None and held.bus not in (None, claim.bus) and held.place != claim.place
    if strange and age_s is not None and age_s < SEEN_S:
        raise NotOurs(
            f"{play.store.where} is in use with the server at {held.place}, {age_s:.0f} s ago: end the processes "
            f"there and start again after {SEEN_S} s, or give this one a store of its own in CODEMOJEX_DATABASE_URL"
        )


def _other(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


def _in(namespace: str | None) -> str:
    return f"the namespace {namespace}" if namespace else "no namespace"


def _age_s(play: Play, held: Deployment) -> float | None:
    if held.seen_at is None:
        return None
    return max(0.0, play.clock.now_ms() / 1000 - held.seen_at.timestamp())


async def _read(play: Play) -> _Record | None:
    reply = await play.bus.execute("HMGET", keys.owner(play.options), "bot", "store", "bus")
    return _record(*reply) if reply[1] and reply[2] else None


async def _own(play: Play, bot_id: int | None, store: str, bus: str) -> tuple[_Record, bool]:
    args = ["" if bot_id is None else bot_id, store, bus]
    bot, store_name, bus_name, written = await play.bus.run(LUA.script("own"), [keys.owner(play.options)], args)
    return _record(bot, store_name, bus_name), bool(written)


def _record(bot: bytes | None, store: bytes, bus: bytes) -> _Record:
    return _Record(int(bot) if bot else None, store.decode(), bus.decode())
