"""Fixtures for the store's tests: databases, and the pieces of an invented game."""

from tests.support.databases import database_url, postgres_server, postgres_url, sqlite_url, store

__all__ = ["database_url", "postgres_server", "postgres_url", "sqlite_url", "store"]
