"""Permissions are asked for under the catalog's revisions, so that they are kept, and never go out of reach."""

import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from core.budget import Budget
from core.ids import DataRevision, PolicyRevision, TenantId
from core.stages import StageLog
from corpus.errors import NotAllowed
from gateway.call import Call
from gateway.serving import Serving, permission_for, require
from policy.engine import Permission, Revisions, SourceRights
from policy.errors import PolicyRevisionMoved
from policy.principal import Principal

CATALOG = Revisions(PolicyRevision("r1"), DataRevision(0))


@dataclass
class Engine:
    """Stands at `revisions` and notes under which it was asked."""

    revisions: Revisions
    allowed: bool = True
    asked: list[Revisions | None] = field(default_factory=list)

    async def allow(
        self, rpc: str, principal: Principal, source: SourceRights | None, budget: Budget, *, expected: Revisions | None
    ) -> Permission:
        self.asked.append(expected)
        if expected not in (None, self.revisions):
            raise PolicyRevisionMoved(self.revisions.policy, self.revisions.data)
        return Permission(self.allowed, may_grant=False)


@dataclass
class Catalog:
    rows: list[tuple[Any, ...]]

    def read(self, sql: str, parameters: object) -> list[tuple[Any, ...]]:
        return self.rows


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


async def test_while_policy_is_replaced_its_engine_decides() -> None:
    engine = Engine(Revisions(PolicyRevision("r2"), DataRevision(0)), allowed=False)
    with pytest.raises(NotAllowed):
        await require(serving(engine), call(), "Search")
    assert engine.asked == [CATALOG, None]
