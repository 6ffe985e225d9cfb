"""Knows where the migrations are and which of them a database has seen; changes nothing.

The migrations are the top-level directory `migrations`, beside the package in a checkout and in an installation alike.
"""

from pathlib import Path

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from codemojex.store.errors import StoreUnavailable

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"

_MIGRATE = "run `codemojex migrate`"


def alembic_config() -> Config:
    """The configuration that an ini file would hold."""
    if not (MIGRATIONS / "env.py").is_file():
        raise StoreUnavailable(
            "(migrations)", f"there are none in {MIGRATIONS}", "install the program with its migrations"
        )
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def current_revision(connection: Connection) -> str | None:
    """The newest migration that the database has seen; None for a database without any."""
    return MigrationContext.configure(connection).get_current_revision()


def check_schema(connection: Connection, *, where: str) -> None:
    """Raise `StoreUnavailable` unless the database has seen exactly the migrations of this program."""
    scripts = ScriptDirectory.from_config(alembic_config())
    wanted, found = scripts.get_current_head(), current_revision(connection)
    if found == wanted:
        return
    if found is None:
        raise StoreUnavailable(where, "it has no tables yet", _MIGRATE)
    if found in {script.revision for script in scripts.walk_revisions()}:
        raise StoreUnavailable(where, f"its schema is at {found}, this program needs {wanted}", _MIGRATE)
    raise StoreUnavailable(where, f"its schema {found} is newer than this program's {wanted}", "update the program")
