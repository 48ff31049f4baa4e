"""The catalog's schema: migrations lead to the tables that the code declares, and wrong states are refused."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

from corpus.catalog.database import MIGRATIONS, Database, migrate
from corpus.catalog.schema import metadata
from corpus.errors import CatalogUnavailable


def test_migrations_lead_to_the_declared_tables(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    migrate(path)
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_migrations_can_be_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    migrate(path)
    engine = sa.create_engine(f"sqlite:///{path}")
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    assert set(sa.inspect(engine).get_table_names()) <= {"alembic_version"}
    engine.dispose()


def test_migrating_again_keeps_the_incarnation(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    first = Database.open(path)
    first.close()
    second = Database.open(path)
    second.close()
    assert first.incarnation == second.incarnation


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A raw connection to a catalog that holds one tenant, source, document and published revision."""
    path = tmp_path / "catalog.sqlite"
    migrate(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.executescript(
        """
        INSERT INTO tenants (tenant_id, name, created_at, representation_id, policy_revision)
          VALUES ('t', 'acme', 0, 'r', 'p');
        INSERT INTO sources (tenant_id, source_id, display_name, trust, rights, created_at)
          VALUES ('t', 's', 'S', 2, '{}', 0);
        INSERT INTO accesses VALUES ('a', '{}');
        INSERT INTO documents (document_key, tenant_id, source_id, document_id, number, access, access_number)
          VALUES (1, 't', 's', 'd', 2, 'a', 0);
        """
    )
    for key in (1, 2):
        connection.execute(
            "INSERT INTO revisions (revision_key, revision_id, document_key, tenant_id, number, state, given, own,"
            " binding, store_access, operation_id, created_at, request_digest, size_bytes, media_type, filename,"
            " provenance, original_blob, canonical_blob, vectors_blob)"
            " VALUES (?, ?, 1, 't', ?, 'published', 'a', '[]', '[]', 'a', 'o', 0, 'x', 1, 'text/plain', '', '{}',"
            " 'b', 'c', 'v')",
            (key, f"rev{key}", key),
        )
    yield connection
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE tenants SET active_seq = 5", id="a snapshot that was never drawn is active"),
        pytest.param("UPDATE documents SET tombstone = 9", id="a tombstone that was never numbered"),
        pytest.param("UPDATE revisions SET number = 1", id="two revisions under one number"),
        pytest.param("UPDATE revisions SET state = 'lost'", id="an unknown state"),
        pytest.param("UPDATE revisions SET canonical_blob = NULL", id="published without content"),
        pytest.param("UPDATE revisions SET given = 'nobody'", id="an access that is not stored"),
        pytest.param(
            "INSERT INTO intervals (revision_key, from_seq, document_key, tenant_id)"
            " VALUES (1, 1, 1, 't'), (2, 2, 1, 't')",
            id="two revisions of a document serve at once",
        ),
        pytest.param(
            "INSERT INTO intervals (revision_key, from_seq, to_seq, document_key, tenant_id) VALUES (1, 3, 3, 1, 't')",
            id="an empty interval",
        ),
        pytest.param("INSERT INTO snapshots VALUES ('t', 3, 3, 0, 0)", id="a snapshot on itself"),
    ],
)
def test_wrong_states_are_refused(catalog: sqlite3.Connection, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        catalog.execute(statement)


def test_a_catalog_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    database = Database.open(path)
    path.write_bytes(b"x" * 8192)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with pytest.raises(CatalogUnavailable):
        Database(path)
    database.close()
