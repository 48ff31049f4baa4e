"""SourceService: where documents come from."""

from collections.abc import Sequence

from muniment.v1 import source_pb2

from core.attributes import TrustTier
from core.errors import InvalidValue
from core.ids import SourceId, clean_text
from core.keys import digest
from corpus.catalog.idempotency import Request, once
from corpus.catalog.sources import SourceRecord, create_source, list_sources
from corpus.reading import LISTED_AT_ONCE, breath
from gateway.call import Call
from gateway.decode import access_of
from gateway.encode import source_message
from gateway.registration import Service
from gateway.serving import Serving, caller_of, page_size, permission_for, require, rights_of, source_for

_DESCRIPTOR = source_pb2.DESCRIPTOR.services_by_name["SourceService"]
MAX_RIGHTS = 1_000


def source_service(serving: Serving) -> Service:
    """The service with its handlers."""
    handlers = _Sources(serving)
    return Service(
        _DESCRIPTOR,
        {"CreateSource": handlers.create, "GetSource": handlers.get, "ListSources": handlers.list_},
    )


class _Sources:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def create(self, request: source_pb2.CreateSourceRequest, call: Call) -> bytes:
        await require(self._serving, call, "CreateSource")
        source = _source_of(request.source, call)
        key = Request(
            call.principal.tenant_id,
            caller_of(call.principal),
            "CreateSource",
            request.idempotency_key,
            digest(request.source.SerializeToString(deterministic=True)),
        )
        return await self._serving.database.write(
            lambda tx: once(tx, key, lambda tx: _created(create_source(tx, source)))
        )

    async def get(self, request: source_pb2.GetSourceRequest, call: Call) -> source_pb2.GetSourceResponse:
        source, _ = await source_for(self._serving, call, "GetSource", request.source_id)
        return source_pb2.GetSourceResponse(source=source_message(source))

    async def list_(self, request: source_pb2.ListSourcesRequest, call: Call) -> source_pb2.ListSourcesResponse:
        await require(self._serving, call, "ListSources")
        size, tenant_id = page_size(request.page_size), call.principal.tenant_id
        bound_to = digest("ListSources", call.principal.digest)
        place = self._serving.tokens.place(tenant_id, bound_to, request.page_token)
        after, found = ("" if place is None else str(place[0])), list[SourceRecord]()
        while len(found) <= size:
            batch = list_sources(self._serving.database, tenant_id, after, LISTED_AT_ONCE)
            found += [source for source in batch if await self._shows(source, call)]
            if len(batch) < LISTED_AT_ONCE:
                break
            after = batch[-1].source_id
            await breath(call.budget)
        page = found[:size]
        token = self._serving.tokens.page(tenant_id, bound_to, [page[-1].source_id]) if len(found) > size else ""
        return source_pb2.ListSourcesResponse(sources=map(source_message, page), next_page_token=token)

    async def _shows(self, source: SourceRecord, call: Call) -> bool:
        """A source is shown to who may write to it or grant access on it."""
        return (await permission_for(self._serving, call, "GetSource", rights_of(source))).allowed


def _source_of(message: source_pb2.Source, call: Call) -> SourceRecord:
    if message.trust not in [int(tier) for tier in TrustTier]:
        raise InvalidValue("source.trust", "must be untrusted, reviewed or authoritative")
    template = access_of(message.access_template, "source.access_template")
    return SourceRecord(
        tenant_id=call.principal.tenant_id,
        source_id=SourceId(clean_text("source.source_id", message.source_id)),
        display_name=_display_name(message),
        trust=TrustTier(message.trust),
        access_template=template if message.HasField("access_template") else None,
        writer_groups=_clean_all("source.writer_groups", message.writer_groups),
        writer_subjects=_clean_all("source.writer_subjects", message.writer_subjects),
        grant_groups=_clean_all("source.grant_groups", message.grant_groups),
        grant_subjects=_clean_all("source.grant_subjects", message.grant_subjects),
    )


def _display_name(message: source_pb2.Source) -> str:
    return clean_text("source.display_name", message.display_name) if message.display_name else message.source_id


def _clean_all(field: str, values: Sequence[str]) -> tuple[str, ...]:
    if len(values) > MAX_RIGHTS:
        raise InvalidValue(field, f"must not hold more than {MAX_RIGHTS} values")
    return tuple(sorted({clean_text(field, value) for value in values}))


def _created(source: SourceRecord) -> bytes:
    raw: bytes = source_pb2.CreateSourceResponse(source=source_message(source)).SerializeToString()
    return raw
