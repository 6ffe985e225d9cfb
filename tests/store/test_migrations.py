"""Migrations build exactly the tables of the models, and can be taken back."""

import asyncio
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from codemojex.store.address import parse_address
from codemojex.store.engine import connect
from codemojex.store.migrate import migrate, roll_back
from codemojex.store.schema import alembic_config
from codemojex.store.tables import Tables

_CATALOGUE = {
    # Everything that a database knows of its tables, as the text it would create them from.
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL",
    "postgresql": """
        SELECT 'index ' || indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL SELECT 'constraint ' || conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
          FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        UNION ALL SELECT 'column ' || attrelid::regclass || '.' || attname,
            concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attcollation::regcollation, atthasdef)
          FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
          WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
    """,
}


async def run(url, work):
    engine = connect(parse_address(url))
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


def catalogue(connection: Connection) -> dict[str, set[str]]:
    """Name → lines of its definition; as a set, because the order of a table's constraints means nothing."""
    rows = connection.execute(text(_CATALOGUE[connection.dialect.name]))
    return {
        name: {line.strip().rstrip(",") for line in sql.replace('"', "").splitlines()}
        for name, sql in rows
        if "alembic_version" not in name
    }


def revisions() -> list[str]:
    return [
        script.revision for script in reversed(list(ScriptDirectory.from_config(alembic_config()).walk_revisions()))
    ]


@pytest.mark.filterwarnings("ignore:.*expression-based index")  # the catalogue test sees the index that it cannot
async def test_alembic_finds_nothing_to_change_after_an_upgrade(database_url):
    await migrate(database_url)

    def differences(connection):
        options = {"compare_type": True, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), Tables.metadata)

    assert await run(database_url, differences) == []


async def test_upgrade_builds_the_same_definitions_as_the_models(database_url):
    await migrate(database_url)
    migrated = await run(database_url, catalogue)

    def rebuild(connection):
        Tables.metadata.drop_all(connection)
        Tables.metadata.create_all(connection)
        return catalogue(connection)

    assert migrated == await run(database_url, rebuild)
    text_of_all = " ".join(line for lines in migrated.values() for line in lines).lower()
    for named in ("uq_games_live_room", "uq_rooms_chat_thread", "coalesce(thread_id", "'gam'", "= 'live'"):
        assert named in text_of_all


async def test_every_revision_goes_up_down_and_up_again(database_url):
    below = "base"
    for revision in revisions():
        assert await migrate(database_url, revision) == revision
        up = await run(database_url, catalogue)
        assert await roll_back(database_url, below) == (None if below == "base" else below)
        assert await migrate(database_url, revision) == revision
        assert await run(database_url, catalogue) == up
        below = revision


async def test_rolling_back_to_base_leaves_no_table(database_url):
    await migrate(database_url)
    await roll_back(database_url)
    assert await run(database_url, catalogue) == {}


async def test_second_migration_changes_nothing(database_url):
    assert await migrate(database_url) == revisions()[-1]
    assert await migrate(database_url) == revisions()[-1]


async def test_failed_migration_leaves_nothing_behind(database_url):
    def occupy(connection):
        connection.execute(text("CREATE TABLE watermarks (id INTEGER)"))

    await run(database_url, occupy)
    before = await run(database_url, catalogue)
    with pytest.raises(Exception, match="watermarks"):
        await migrate(database_url)
    assert await run(database_url, catalogue) == before


async def test_processes_that_migrate_at_once_do_it_one_after_the_other(database_url):
    program = "import asyncio, sys; from codemojex.store.migrate import migrate; asyncio.run(migrate(sys.argv[1]))"
    processes = [await asyncio.create_subprocess_exec(sys.executable, "-c", program, database_url) for _ in range(2)]
    async with asyncio.timeout(60):
        assert [await process.wait() for process in processes] == [0, 0]


def test_revisions_are_numbered_in_a_single_line():
    assert revisions() == [f"{number:04}" for number in range(1, len(revisions()) + 1)]
