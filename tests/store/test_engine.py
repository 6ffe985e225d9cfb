"""A database that cannot be used is one clear error, without the password."""

import asyncio
import socket

import pytest
from sqlalchemy import text

from codemojex.store import engine as engine_module
from codemojex.store.address import parse_address
from codemojex.store.engine import close, open_store, reading, writing
from codemojex.store.errors import StoreUnavailable
from codemojex.store.migrate import migrate

PASSWORD = "hunter2-и"


async def unavailable(url, sentence, opening=open_store):
    with pytest.raises(StoreUnavailable, match=sentence) as caught:
        await opening(url)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in f"{error!r} {error}"
        error = error.__cause__
    assert caught.value.remedy in str(caught.value)


@pytest.mark.parametrize("opening", [open_store, migrate])
@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (f"nonsense {PASSWORD}", "cannot be read"),
        (f"postgresql://u:{PASSWORD}@host:port/x", "cannot be read"),
        (f"mysql://u:{PASSWORD}@host/x", "not supported"),
        (f"postgresql+psycopg://u:{PASSWORD}@host/x", "not supported"),
        (f"postgresql://u:{PASSWORD}@host", "names no database"),
        (f"postgresql://u:{PASSWORD}@host:99999/x", "1 to 65535"),
        (f"postgresql://u:{PASSWORD}@host:-5/x", "1 to 65535"),
        (f"postgresql://u:{PASSWORD}@/x?host=one:1&host=two:99999", "1 to 65535"),
        (f"postgresql://u:{PASSWORD}@a..b/x", "cannot be read"),
        (f"postgresql://u:{PASSWORD}@host/x?prepared_statement_cache_size=many", "cannot be read"),
        (f"postgresql://u:{PASSWORD}@host/x?ssl=nonsense", "sslmode"),
        (f"postgresql://u@host/x?{PASSWORD}=1", "takes .* only"),
        ("sqlite:///a.db?foo=1", "no options"),
        ("sqlite://a.db", "on no host"),
        ("sqlite://", "remembers nothing"),
        ("sqlite:///:memory:", "remembers nothing"),
        ("sqlite:////no/such/directory/store.db", "no such file|no directory /no/such/directory"),
        (f"postgresql://u:{PASSWORD}@no-such-host.invalid/x", "no-such-host.invalid"),
        (f"postgresql://u@/x?password={PASSWORD}&host=/no/such/sockets", "durable store"),
    ],
)
async def test_wrong_address_is_named(url, sentence, opening):
    await unavailable(url, sentence, opening)


async def test_refused_connection_is_named():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        await unavailable(f"postgresql://u:{PASSWORD}@127.0.0.1:{port}/x", f"127.0.0.1:{port}/x.*check that")


async def test_server_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(engine_module, "CONNECT_TIMEOUT_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        async with asyncio.timeout(15):
            await unavailable(f"postgresql://u:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/x", "in time|timeout")


async def test_missing_database_is_named(postgres_server):
    await unavailable(postgres_server.url("no_such_database"), "no_such_database.*does not exist")


async def test_unknown_user_is_named_without_the_password(postgres_server, postgres_url):
    database = postgres_url.partition("@/")[2].partition("?")[0]
    await unavailable(postgres_server.url(database, user="nobody", password="hunter2"), "nobody")


async def test_missing_file_is_named_and_not_created(sqlite_url, tmp_path):
    await unavailable(sqlite_url, "no such file; run `codemojex migrate`")
    assert list(tmp_path.iterdir()) == []


async def test_file_of_another_kind_is_named(sqlite_url, tmp_path):
    (tmp_path / "store.db").write_text("a letter, much longer than the header of a database file would be" * 20)
    await unavailable(sqlite_url, "not a database")


async def test_database_without_tables_is_named_with_the_remedy(database_url, tmp_path):
    (tmp_path / "store.db").touch()
    await unavailable(database_url, "no tables yet; run `codemojex migrate`")


@pytest.mark.parametrize(
    ("revision", "sentence"), [("9999", "newer than.*update the program"), (None, "no tables yet")]
)
async def test_schema_of_another_version_is_named(store, store_url, revision, sentence):
    async with writing(store) as session:
        await session.execute(text("DELETE FROM alembic_version"))
        if revision:
            await session.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision})
    await unavailable(store_url, sentence)


async def test_spellings_of_hosting_services_are_understood():
    address = parse_address("postgres://u:p@h/x?sslmode=require")
    assert (address.drivername, dict(address.query)) == ("postgresql+asyncpg", {"ssl": "require"})


async def test_store_shows_itself_without_its_password(store):
    assert "hunter2" not in store.where
    assert store.where.startswith(("sqlite", "postgresql"))


async def test_sqlite_keeps_what_is_committed_and_enforces_references(sqlite_url):
    await migrate(sqlite_url)
    store = await open_store(sqlite_url)
    async with reading(store) as session:
        found = {
            name: await session.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    await close(store)
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}


async def test_sqlite_writers_wait_for_each_other_and_readers_do_not(sqlite_url):
    await migrate(sqlite_url)
    store = await open_store(sqlite_url)
    order = []

    async def second():
        async with writing(store):
            order.append("second")

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        async with writing(store):
            waiting = group.create_task(second())
            async with reading(store) as session:
                await session.scalar(text("SELECT count(*) FROM games"))
            order.append("first")
        await waiting
    await close(store)
    assert order == ["first", "second"]


async def test_locked_sqlite_file_is_given_up_with_a_clear_error(sqlite_url, monkeypatch):
    await migrate(sqlite_url)
    monkeypatch.setattr(engine_module, "BUSY_TIMEOUT_MS", 50)
    store = await open_store(sqlite_url)
    async with writing(store):
        with pytest.raises(StoreUnavailable, match="locked"):
            async with writing(store):
                pass
    await close(store)


async def test_broken_connection_is_clear_and_the_next_transaction_works(postgres_server, postgres_url):
    await migrate(postgres_url)
    store = await open_store(postgres_url)
    with pytest.raises(StoreUnavailable):
        async with writing(store) as session:
            backend = await session.scalar(text("SELECT pg_backend_pid()"))
            postgres_server.psql(f"SELECT pg_terminate_backend({backend}, 5000)")
            await session.execute(text("SELECT 1"))
    async with reading(store) as session:
        assert await session.scalar(text("SELECT 1")) == 1
    await close(store)


async def test_connection_that_broke_while_it_was_idle_is_replaced_unnoticed(postgres_server, postgres_url):
    await migrate(postgres_url)
    store = await open_store(postgres_url)
    async with reading(store) as session:
        backend = await session.scalar(text("SELECT pg_backend_pid()"))
    postgres_server.psql(f"SELECT pg_terminate_backend({backend}, 5000)")
    async with reading(store) as session:
        assert await session.scalar(text("SELECT pg_backend_pid()")) != backend
    await close(store)


async def test_transaction_rolls_back_when_its_block_raises(store):
    async def add_and_fail():
        async with writing(store) as session:
            await session.execute(text("INSERT INTO watermarks VALUES ('q', 's', 'EVT00000000001', 1)"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await add_and_fail()
    async with reading(store) as session:
        assert await session.scalar(text("SELECT count(*) FROM watermarks")) == 0


async def test_closing_twice_is_allowed(store):
    await close(store)
    await close(store)
