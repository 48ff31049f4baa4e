"""Every read sees the newest commit, whatever other threads of the process are reading; errors quote no values."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from core.ids import RepresentationId
from corpus.catalog.database import Database
from corpus.catalog.tenants import ensure_tenants, step_epoch

SLOW = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) "
    "SELECT (SELECT count(*) FROM tenants), count(*) FROM n"
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "catalog.sqlite")
    yield opened
    opened.close()


def test_a_read_does_not_share_the_snapshot_of_a_slow_one(database: Database) -> None:
    tenant_id = database.write_now(lambda tx: ensure_tenants(tx, ["acme"], RepresentationId("r"))["acme"])
    slow = threading.Thread(target=lambda: database.read(SLOW))
    slow.start()
    while slow.is_alive():
        database.write_now(lambda tx: step_epoch(tx, tenant_id))
        committed = database.write_now(lambda tx: tx.exec_driver_sql("SELECT epoch FROM tenants").scalar())
        assert database.read("SELECT epoch FROM tenants")[0][0] == committed
    slow.join()


def test_an_error_of_a_statement_does_not_quote_its_values(database: Database) -> None:
    with pytest.raises(sa.exc.IntegrityError) as caught:
        database.write_now(
            lambda tx: [
                tx.execute(sa.text("INSERT INTO meta VALUES (:n, :v)"), {"n": "secret", "v": "1"}) for _ in "ab"
            ]
        )
    assert "secret" not in str(caught.value)
