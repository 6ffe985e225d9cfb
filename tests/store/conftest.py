"""Fixtures for the tests of the store: fresh databases of both kinds."""

from tests.support.databases import (
    database_url,
    migrated_database,
    migrated_file,
    postgres_server,
    postgres_url,
    sqlite_url,
    store,
    store_url,
)

__all__ = [
    "database_url",
    "migrated_database",
    "migrated_file",
    "postgres_server",
    "postgres_url",
    "sqlite_url",
    "store",
    "store_url",
]
