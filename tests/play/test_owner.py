"""Whose a server and a store are: written once, by whoever starts first, and everybody else is refused in one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from codemojex.engine.clock import ManualClock
from codemojex.engine.errors import EngineError
from codemojex.engine.ids import Minter
from codemojex.engine.transport.connector import Connector
from codemojex.play import keys
from codemojex.play.context import Options, Play, namespaced
from codemojex.play.owner import SEEN_S, Claim, Ownership, assert_owner
from codemojex.store import deployment, engine
from codemojex.store.errors import NotOurs
from codemojex.store.migrate import migrate
from tests.support.topologies import Cluster, ReplicaSet
from tests.support.valkey import ValkeyServer
from tests.support.waiting import until

HERE, THERE = "valkey://here:6379/0", "valkey://there:6379/0"
Open = Callable[..., Awaitable[Play]]


@pytest.fixture
async def opened(tmp_path: Path, valkey_url: str, queue: str) -> AsyncIterator[Open]:
    """Open a `Play` of this test's own queues: over the store of a name, the server at a URL, under a namespace."""
    async with AsyncExitStack() as stack:
        clock = ManualClock()

        async def open_(store: str = "store", url: str = valkey_url, namespace: str = "") -> Play:
            address = f"sqlite+aiosqlite:///{tmp_path}/{store}.db"
            await migrate(address)
            durable = await engine.open_store(address)
            stack.push_async_callback(engine.close, durable)
            bus = await Connector.connect(url)
            stack.push_async_callback(bus.close)
            options = Options(namespace=namespace, guesses=namespaced(namespace, queue))
            return Play(bus, Minter(1, clock), clock, durable, options=options)

        yield open_


def advance(play: Play, s: float) -> None:
    assert isinstance(play.clock, ManualClock)
    play.clock.advance(int(s * 1000))


async def record(play: Play) -> dict[bytes, bytes]:
    return await play.bus.execute("HGETALL", keys.owner(play.options))


async def refused(play: Play, claim: Claim) -> str:
    before = await record(play), await deployment.read(play.store)
    with pytest.raises(NotOurs) as caught:
        await assert_owner(play, claim)
    [line] = str(caught.value).splitlines()
    assert (await record(play), await deployment.read(play.store)) == before, "whoever is refused writes nothing"
    return line


async def test_the_first_start_writes_whose_server_and_store_are(opened: Open) -> None:
    play = await opened()
    await assert_owner(play, Claim(7, HERE))
    held = await deployment.read(play.store)
    assert (held.bot_id, held.namespace, held.place) == (7, "", HERE)
    assert held.bus is not None
    assert await record(play) == {b"bot": b"7", b"store": held.store.encode(), b"bus": held.bus.encode()}
    assert await play.bus.execute("TTL", keys.owner(play.options)) == -1


async def test_the_same_bot_again_changes_nothing(opened: Open) -> None:
    play, claim = await opened(), Claim(7, HERE)
    await assert_owner(play, claim)
    before = await record(play), await deployment.read(play.store)
    for again in (claim, Claim(7, HERE), Claim(7, THERE), Claim(None, HERE)):
        await assert_owner(play, again)
        assert (await record(play), await deployment.read(play.store)) == before


async def test_another_bot_on_the_server_is_refused_with_the_remedy(opened: Open) -> None:
    await assert_owner(await opened(), Claim(7, HERE))
    line = await refused(await opened("other"), Claim(8, HERE))
    for part in ("bot 7", "bot 8", HERE, "database number", "CODEMOJEX_NAMESPACE"):
        assert part in line


async def test_another_bot_on_the_store_is_refused_with_the_remedy(
    opened: Open, start_valkey: Callable[..., ValkeyServer]
) -> None:
    await assert_owner(await opened(), Claim(7, HERE))
    line = await refused(await opened(url=start_valkey().url), Claim(8, THERE))
    assert all(part in line for part in ("bot 7", "bot 8", "store.db", "CODEMOJEX_DATABASE_URL"))


async def test_another_store_on_the_server_is_refused_with_the_remedy(opened: Open) -> None:
    await assert_owner(await opened(), Claim(7, HERE))
    for claim in (Claim(7, HERE), Claim(None, HERE)):
        line = await refused(await opened("other"), claim)
        assert all(part in line for part in ("another store", "other.db", "CODEMOJEX_DATABASE_URL"))


async def test_one_store_with_two_servers_is_refused_while_the_first_is_in_use(
    opened: Open, start_valkey: Callable[..., ValkeyServer]
) -> None:
    here = await opened()
    there = await opened(url=start_valkey().url)
    first, second = Claim(7, HERE), Claim(7, THERE)
    await assert_owner(here, first)
    for _ in range(3):
        line = await refused(there, second)
        assert all(part in line for part in (HERE, "in use", "CODEMOJEX_DATABASE_URL"))
        advance(here, SEEN_S - 1)
        await assert_owner(here, first)  # the beat of a process that works
    advance(here, SEEN_S)
    await assert_owner(there, second)  # the games have moved
    line = await refused(here, first)
    assert all(part in line for part in ("another server", THERE, "CODEMOJEX_VALKEY_URL"))


async def test_another_namespace_has_a_server_record_and_needs_a_store_of_its_own(opened: Open) -> None:
    await assert_owner(await opened(), Claim(7, HERE))
    await assert_owner(await opened("other", namespace="second"), Claim(8, HERE))
    line = await refused(await opened(namespace="third"), Claim(7, HERE))
    assert all(part in line for part in ("the namespace third", "no namespace", "CODEMOJEX_DATABASE_URL"))


async def test_the_bot_is_added_when_a_role_without_a_token_started_first(opened: Open) -> None:
    play = await opened()
    await assert_owner(play, Claim(None, HERE))
    assert (await record(play))[b"bot"] == b""
    await assert_owner(play, Claim(7, HERE))
    assert (await record(play))[b"bot"] == b"7"
    assert (await deployment.read(play.store)).bot_id == 7
    assert "bot 8" in await refused(play, Claim(8, HERE))


async def test_of_many_bots_that_start_at_once_one_owns_the_server(opened: Open) -> None:
    plays = [await opened(f"store-{number}") for number in range(6)]
    claims = [assert_owner(play, Claim(number + 1, HERE)) for number, play in enumerate(plays)]
    answers = await asyncio.gather(*claims, return_exceptions=True)
    [owner] = [number for number, answer in enumerate(answers) if answer is None]
    assert all(isinstance(answer, NotOurs) for number, answer in enumerate(answers) if number != owner), answers
    assert (await record(plays[0]))[b"bot"] == str(owner + 1).encode()
    for number, play in enumerate(plays):
        assert ((await deployment.read(play.store)).bus is None) == (number != owner), "a refused bot keeps its store"


async def test_of_many_bots_that_start_at_once_one_owns_the_store(opened: Open, queue: str) -> None:
    plays = [await opened() for _ in range(4)]
    plays = [replace(p, options=replace(p.options, guesses=f"{queue}.{number}")) for number, p in enumerate(plays)]
    claims = [assert_owner(play, Claim(number + 1, f"{HERE}{number}")) for number, play in enumerate(plays)]
    answers = await asyncio.gather(*claims, return_exceptions=True)
    assert [type(answer) for answer in answers].count(NotOurs) == 3, answers
    assert sum([bool(await record(play)) for play in plays]) == 1


@pytest.mark.parametrize("place", [HERE, "unix:///the/same/server"])
async def test_a_record_that_the_server_lost_is_written_again(
    opened: Open, start_valkey: Callable[..., ValkeyServer], place: str, caplog: pytest.LogCaptureFixture
) -> None:
    play = await opened(url=start_valkey().url)
    running = Claim(7, place)
    await assert_owner(play, running)
    advance(play, 20)
    await assert_owner(play, Claim(None, HERE))  # another process of this bot, by another address
    before = await record(play)
    await play.bus.execute("FLUSHALL")
    await assert_owner(play, running)
    assert await record(play) == before
    assert "written again" in caplog.text
    await play.bus.execute("FLUSHALL")
    await assert_owner(play, Claim(7, running.place))  # a process that starts after the loss
    assert await record(play) == before


async def test_a_running_process_learns_that_another_bot_took_the_emptied_server(
    opened: Open, start_valkey: Callable[..., ValkeyServer]
) -> None:
    url = start_valkey().url
    play, claim = await opened(url=url), Claim(7, HERE)
    await assert_owner(play, claim)
    await play.bus.execute("FLUSHALL")
    await assert_owner(await opened("other", url), Claim(8, HERE))
    assert "bot 8" in await refused(play, claim)
    with pytest.raises(NotOurs):
        await asyncio.wait_for(Ownership(play, claim, beat_s=0.01).run(), 10)


async def test_the_beat_writes_a_lost_record_and_outlives_an_outage(
    opened: Open, start_valkey: Callable[..., ValkeyServer]
) -> None:
    server = start_valkey()
    play = await opened(url=server.url)
    ownership = Ownership(play, Claim(7, HERE), beat_s=0.01)
    await ownership.look()
    before = await record(play)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ownership.run())
        await play.bus.execute("FLUSHALL")
        await until(lambda: written(play, before), "the record is there again")
        server.kill()
        await asyncio.sleep(0.1)  # some beats without a server
        server.start()
        await until(lambda: written(play, before), "the record is there again")
        ownership.stop()


async def written(play: Play, wanted: dict[bytes, bytes]) -> bool:
    try:
        return await record(play) == wanted
    except EngineError:
        return False


async def test_a_start_that_is_cut_between_server_and_store_is_finished_by_the_next(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(ms: int) -> datetime:
        raise KeyboardInterrupt

    play = await opened()
    with monkeypatch.context() as broken:
        broken.setattr("codemojex.play.owner.utc", cut)  # after the record, before the commit
        with pytest.raises(KeyboardInterrupt):
            await assert_owner(play, Claim(7, HERE))
    assert (await deployment.read(play.store)).bus is None
    assert await record(play)
    await assert_owner(play, Claim(7, HERE))
    assert (await record(play))[b"bus"].decode() == (await deployment.read(play.store)).bus


@pytest.mark.parametrize("kind", [Cluster, ReplicaSet])
async def test_a_cluster_and_a_replica_set_have_an_owner_too(
    opened: Open, kind: type[Cluster] | type[ReplicaSet]
) -> None:
    servers = kind()
    try:
        url = (await servers.start()).url
        await assert_owner(await opened(url=url), Claim(7, HERE))
        await assert_owner(await opened(url=url), Claim(7, HERE))
        assert "bot 7" in await refused(await opened("other", url), Claim(8, HERE))
        await assert_owner(await opened("other", url, "second"), Claim(8, HERE))
    finally:
        servers.close()
