"""The reads of a release cost what they are asked for, not what the tenant holds."""

from pathlib import Path
from typing import Any

from core.ids import RepresentationId
from corpus.blobs import Blobs, KeyStore
from corpus.catalog.database import Database
from corpus.catalog.tenants import ensure_tenants
from corpus.pinning import take_pin
from corpus.reading import OpenCorpus
from corpus.store import Scope
from policy.filter import Everything
from tests.fakes.memory_store import MemoryStore


class PlannedDatabase(Database):
    """Keeps the query plan of each statement that is read, without indentation."""

    def __init__(self, path: Path) -> None:
        self.plans: list[list[str]] = []
        super().__init__(path)

    def read(self, sql: str, parameters: Any = ()) -> list[Any]:
        self.plans.append([str(step[3]) for step in super().read(f"EXPLAIN QUERY PLAN {sql}", parameters)])
        return super().read(sql, parameters)


def test_reads_of_a_release_never_start_at_the_tenants_documents(tmp_path: Path) -> None:
    Database.open(tmp_path / "catalog.sqlite").close()
    database, keys = PlannedDatabase(tmp_path / "catalog.sqlite"), KeyStore(tmp_path / "keys.sqlite")
    representation = RepresentationId("r1")
    tenant_id = database.write_now(lambda tx: ensure_tenants(tx, ("acme",), representation))["acme"]
    pin = take_pin(database, tenant_id, 1_900_000_000)
    store = MemoryStore(representation, 4)
    opened = OpenCorpus(pin, Everything(), database, store, Blobs(tmp_path / "blobs", keys))
    database.plans.clear()
    try:
        opened.clear([1, 2, 3])
        opened.revisions_by_key([1, 2, 3])
        opened.judge([], Scope())
        opened.records([])
        assert len(database.plans) >= 3
        for plan in database.plans:
            first = next(at for at, step in enumerate(plan) if step.startswith("SCAN j "))
            documents = [at for at, step in enumerate(plan) if step.startswith(("SEARCH d ", "SCAN d"))]
            assert all(at > first for at in documents), plan
            assert not [step for step in plan if step.startswith("SCAN") and not step.startswith("SCAN j ")], plan
    finally:
        keys.close()
        database.close()
