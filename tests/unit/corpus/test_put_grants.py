"""What a put may name without the grant right is judged when it is accepted, not when its upload began."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.access import Access
from core.attributes import TrustTier
from core.ids import DocumentId, RepresentationId, SourceId, TenantId
from corpus.catalog.database import Database
from corpus.catalog.documents import Accepted, NewRevision, accept_put, check_put, delete_document, set_access
from corpus.catalog.sources import SourceRecord, create_source
from corpus.catalog.tenants import ensure_tenants
from corpus.errors import NotAllowed

WIDE = Access.of(public=True)
NARROW = Access.of(allowed_groups=["board"])
TEMPLATE = Access.of(allowed_groups=["staff"])
SOURCE = SourceId("files")


class Catalog:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.tenant_id: TenantId = database.write_now(
            lambda tx: ensure_tenants(tx, ["acme"], RepresentationId("r"))["acme"]
        )
        source = SourceRecord(self.tenant_id, SOURCE, "Files", TrustTier.REVIEWED, TEMPLATE)
        database.write_now(lambda tx: create_source(tx, source))

    def new(self, access: Access | None, *, may_grant: bool, **more: Any) -> NewRevision:
        return NewRevision(
            tenant_id=self.tenant_id, source_id=SOURCE, document_id=DocumentId("plan"), access=access,
            created_by="somebody", original_blob="blob", sha256="0" * 64, size_bytes=1, media_type="text/plain",
            filename="plan", may_grant=may_grant, **more,
        )  # fmt: skip

    def put(self, access: Access | None, *, may_grant: bool) -> Accepted:
        return self.database.write_now(lambda tx: accept_put(tx, self.new(access, may_grant=may_grant)))

    def given(self) -> list[str]:
        """What each put gave, oldest first."""
        return [digest for (digest,) in self.database.read("SELECT given FROM revisions ORDER BY number")]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    database = Database.open(tmp_path / "catalog.sqlite")
    yield Catalog(database)
    database.close()


def test_an_access_that_was_withdrawn_during_the_upload_does_not_come_back(catalog: Catalog) -> None:
    catalog.put(WIDE, may_grant=True)
    upload = catalog.new(WIDE, may_grant=False)
    assert catalog.database.write_now(lambda tx: check_put(tx, upload)) is None  # in order when it began
    catalog.database.write_now(lambda tx: set_access(tx, catalog.tenant_id, SOURCE, "plan", NARROW, "", "admin"))
    with pytest.raises(NotAllowed):
        catalog.database.write_now(lambda tx: accept_put(tx, upload))


def test_an_access_that_a_put_on_its_way_replaces_is_not_current(catalog: Catalog) -> None:
    catalog.put(WIDE, may_grant=True)
    catalog.put(NARROW, may_grant=True)
    with pytest.raises(NotAllowed):
        catalog.put(WIDE, may_grant=False)


@pytest.mark.parametrize("access", [WIDE, None])
def test_the_current_access_needs_no_right(catalog: Catalog, access: Access | None) -> None:
    catalog.put(WIDE, may_grant=True)
    assert catalog.put(access, may_grant=False).operation_id


def test_a_put_without_an_access_does_not_open_what_was_closed(catalog: Catalog) -> None:
    catalog.put(None, may_grant=False)
    catalog.database.write_now(lambda tx: set_access(tx, catalog.tenant_id, SOURCE, "plan", NARROW, "", "admin"))
    catalog.put(None, may_grant=False)
    assert catalog.given() == [TEMPLATE.digest, NARROW.digest]


def test_naming_the_template_does_not_open_what_was_closed(catalog: Catalog) -> None:
    catalog.put(None, may_grant=False)
    catalog.database.write_now(lambda tx: set_access(tx, catalog.tenant_id, SOURCE, "plan", NARROW, "", "admin"))
    with pytest.raises(NotAllowed):
        catalog.put(TEMPLATE, may_grant=False)
    assert catalog.put(TEMPLATE, may_grant=True).operation_id


def test_a_deleted_document_begins_with_the_template_again(catalog: Catalog) -> None:
    catalog.put(WIDE, may_grant=True)
    catalog.database.write_now(lambda tx: delete_document(tx, catalog.tenant_id, SOURCE, "plan", "", "admin"))
    with pytest.raises(NotAllowed):
        catalog.put(WIDE, may_grant=False)
    catalog.put(None, may_grant=False)
    assert catalog.given() == [WIDE.digest, TEMPLATE.digest]


def test_a_new_document_needs_the_right_for_all_but_the_template(catalog: Catalog) -> None:
    with pytest.raises(NotAllowed):
        catalog.put(WIDE, may_grant=False)
    assert catalog.put(TEMPLATE, may_grant=False).operation_id
