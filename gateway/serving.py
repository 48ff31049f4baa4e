"""What the services work with, and the checks that several of them share."""

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from core.attributes import TrustTier
from core.errors import InvalidValue
from core.ids import MAX_ID_LENGTH, SourceId
from corpus.blobs import Blobs
from corpus.catalog.builds import BuildRecord, find_build
from corpus.catalog.database import Database
from corpus.catalog.sources import SourceRecord, find_source
from corpus.errors import CatalogUnavailable, NotAllowed, NotFound
from corpus.pinning import LATEST, Consistency
from corpus.reading import Corpus
from gateway.call import Call
from gateway.opaque import OpaqueTokens
from generation.claims import Generator
from policy.engine import Permission, PolicyEngine, Revisions, SourceRights
from policy.errors import PolicyRevisionMoved, PolicyUnavailable
from policy.principal import Principal
from retrieval.gate import Gate
from retrieval.search import Searcher
from retrieval.view import PINS, View, open_view

DEFAULT_PAGE = 50
MAX_PAGE = 500

_LONGEST_SPELLING = 4 * MAX_ID_LENGTH  # code points; no longer text becomes an id by normalisation
_REVISIONS = "SELECT policy_revision, data_revision FROM tenants WHERE tenant_id = ?"


@dataclass(frozen=True)
class Serving:
    """Everything that a gateway process serves from; built once by the composition root."""

    database: Database
    corpus: Corpus
    blobs: Blobs
    policy: PolicyEngine
    gate: Gate
    searcher: Searcher
    generator: Generator
    tokens: OpaqueTokens
    fingerprint_key: bytes
    max_document_bytes: int
    now: Callable[[], int]


async def view_of(
    serving: Serving, call: Call, rpc: str, consistency: Consistency = LATEST, valid_at: int | None = None
) -> View:
    """The caller's view, if policy lets it call `rpc` at all (NotAllowed else)."""
    await require(serving, call, rpc)
    return await open_view(
        serving.corpus,
        serving.policy,
        call.principal,
        call.budget,
        call.stages,
        now=serving.now,
        consistency=consistency,
        valid_at=valid_at,
    )


async def require(serving: Serving, call: Call, rpc: str) -> None:
    """NotAllowed unless policy lets the caller call an RPC that concerns no source."""
    if not (await permission_for(serving, call, rpc, None)).allowed:
        raise NotAllowed(rpc)


async def permission_for(serving: Serving, call: Call, rpc: str, rights: SourceRights | None) -> Permission:
    """What policy says to the call, under the revisions that the catalog has now: such an answer is kept.

    Asking anew each time was a tenth of a search. An engine that stands elsewhere decides nothing: it may be behind,
    with rights that were withdrawn (I3); PolicyUnavailable when catalog and engine do not meet within PINS looks.
    """
    for _ in range(PINS):
        found = serving.database.read(_REVISIONS, (call.principal.tenant_id,))
        if not found:
            raise CatalogUnavailable("the tenant is not in the catalog")
        try:
            return await serving.policy.allow(rpc, call.principal, rights, call.budget, expected=Revisions(*found[0]))
        except PolicyRevisionMoved:
            continue
    raise PolicyUnavailable("policy stands at another revision than the catalog")


async def source_for(serving: Serving, call: Call, rpc: str, source_id: str) -> tuple[SourceRecord, Permission]:
    """The source, if the caller may call `rpc` on it; else NotFound, whether it exists or not.

    Policy is asked about a source that is not there, too, under its id: else the time of the first answer would tell
    the ids that exist (I8).
    """
    source_id = known_as(source_id)
    source = find_source(serving.database, call.principal.tenant_id, source_id)
    if source is None and not 0 < len(source_id) <= MAX_ID_LENGTH:
        raise NotFound("a source with an id that none can have")
    rights = SourceRights(SourceId(source_id), TrustTier.UNTRUSTED) if source is None else rights_of(source)
    permission = await permission_for(serving, call, rpc, rights)
    if source is None or not permission.allowed:
        raise NotFound(f"source {source_id}")
    return source, permission


async def build_for(serving: Serving, call: Call, rpc: str, others_rpc: str, build_id: str) -> BuildRecord:
    """The build, if the caller may do this to it; else NotFound, whether it exists or not.

    `others_rpc` is the name under which policy is asked about a build that somebody else began.
    """
    build = find_build(serving.database, call.principal.tenant_id, build_id)
    if build is None:
        raise NotFound(f"build {build_id}")
    own = build.created_by == caller_of(call.principal)
    await source_for(serving, call, rpc if own else others_rpc, build.source_id)
    return build


async def may_grant(serving: Serving, call: Call, source_id: str) -> bool:
    """Whether the caller may see and choose accesses of the source's documents."""
    source = find_source(serving.database, call.principal.tenant_id, source_id)
    if source is None:
        return False
    return (await permission_for(serving, call, "SetAccess", rights_of(source))).may_grant


def rights_of(source: SourceRecord) -> SourceRights:
    """What policy reads of a source."""
    return SourceRights(
        id=source.source_id,
        trust=source.trust,
        writer_groups=source.writer_groups,
        writer_subjects=source.writer_subjects,
        grant_groups=source.grant_groups,
        grant_subjects=source.grant_subjects,
    )


def caller_of(principal: Principal) -> str:
    """Issuer and subject: whose operation, build or idempotency key it is. Distinct for distinct pairs."""
    return json.dumps([principal.issuer, principal.subject])


def known_as(given: str) -> str:
    """An id of a source or document as the catalog has it: NFC, so that its caller's own spelling finds it again."""
    return unicodedata.normalize("NFC", given) if len(given) <= _LONGEST_SPELLING else given


def page_size(asked: int) -> int:
    """DEFAULT_PAGE for 0; InvalidValue above MAX_PAGE."""
    if asked > MAX_PAGE:
        raise InvalidValue("page_size", f"must not be over {MAX_PAGE}")
    return asked or DEFAULT_PAGE
