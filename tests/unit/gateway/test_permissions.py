"""Permissions are asked for under the catalog's revisions, so that they are kept, and never go out of reach."""

import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from core.budget import Budget
from core.ids import MAX_ID_LENGTH, DataRevision, PolicyRevision, TenantId
from core.stages import StageLog
from corpus.errors import CatalogUnavailable, NotFound
from gateway.call import Call
from gateway.serving import Serving, known_as, permission_for, require, source_for
from policy.engine import Permission, Revisions, SourceRights
from policy.errors import PolicyRevisionMoved, PolicyUnavailable
from policy.principal import Principal
from retrieval.view import PINS

CATALOG = Revisions(PolicyRevision("r1"), DataRevision(0))


@dataclass
class Engine:
    """Stands at `revisions` and notes under which it was asked."""

    revisions: Revisions
    allowed: bool = True
    asked: list[Revisions | None] = field(default_factory=list)
    sources: list[SourceRights | None] = field(default_factory=list)

    async def allow(
        self, rpc: str, principal: Principal, source: SourceRights | None, budget: Budget, *, expected: Revisions | None
    ) -> Permission:
        self.asked.append(expected)
        self.sources.append(source)
        if expected not in (None, self.revisions):
            raise PolicyRevisionMoved(self.revisions.policy, self.revisions.data)
        return Permission(self.allowed, may_grant=False)


@dataclass
class Catalog:
    rows: list[tuple[Any, ...]]

    def read(self, sql: str, parameters: object) -> list[tuple[Any, ...]]:
        return self.rows


class Sources(Catalog):
    """One tenant with some sources, of which nobody is told."""

    def __init__(self, ids: set[str]) -> None:
        super().__init__([(CATALOG.policy, CATALOG.data)])
        self.ids = ids

    def read(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        if "FROM sources" not in sql:
            return self.rows
        tenant, id_ = parameters
        return [(tenant, id_, id_, 1, None, "{}", 1, 0)] if id_ in self.ids else []


@dataclass
class Parts:
    policy: Engine
    database: Catalog


def serving(engine: Engine) -> Serving:
    """As far as permissions go."""
    return cast(Serving, Parts(engine, Catalog([(CATALOG.policy, CATALOG.data)])))


def call() -> Call:
    principal = Principal("i", "s", TenantId("t"), (), frozenset(), "j", int(time.time()) + 60)
    return Call(principal, Budget.of_seconds(5), "request", StageLog())


async def test_the_catalogs_revisions_are_named() -> None:
    engine = Engine(CATALOG)
    assert (await permission_for(serving(engine), call(), "Search", None)).allowed
    assert engine.asked == [CATALOG]


async def test_an_engine_at_another_revision_decides_nothing() -> None:
    engine = Engine(Revisions(PolicyRevision("r0"), DataRevision(0)))  # behind: it would still allow
    with pytest.raises(PolicyUnavailable):
        await require(serving(engine), call(), "Search")
    assert engine.asked == [CATALOG] * PINS


async def test_a_tenant_that_the_catalog_does_not_have_may_do_nothing() -> None:
    nobody = cast(Serving, Parts(Engine(CATALOG), Catalog([])))
    with pytest.raises(CatalogUnavailable):
        await permission_for(nobody, call(), "Search", None)


async def test_a_source_that_is_not_there_is_asked_about_like_one_that_is_hidden() -> None:
    """Else the first answer for an id would come sooner where there is none."""
    engine = Engine(CATALOG, allowed=False)
    for id_ in ("there", "absent"):
        with pytest.raises(NotFound):
            await source_for(cast(Serving, Parts(engine, Sources({"there"}))), call(), "GetSource", id_)
    assert [None if rights is None else rights.id for rights in engine.sources] == ["there", "absent"]


async def test_an_id_that_no_source_can_have_is_not_even_asked_about() -> None:
    engine = Engine(CATALOG)
    for id_ in ("", "x" * (MAX_ID_LENGTH + 1), "x" * 1_000_000):
        with pytest.raises(NotFound):
            await source_for(cast(Serving, Parts(engine, Sources(set()))), call(), "GetSource", id_)
    assert engine.sources == []


def test_ids_are_found_in_the_spelling_of_their_caller() -> None:
    assert known_as("re\u0301sume\u0301.md") == "r\u00e9sum\u00e9.md"
