"""Fragments to Weaviate's messages and back; part of the adapter."""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.struct_pb2 import Struct
from weaviate.proto.v1 import base_pb2, batch_pb2, search_get_pb2

from core.ids import FragmentId, RevisionId, Seq, TenantId
from corpus import weaviate_filter as names
from corpus.analyser import lexical_terms
from corpus.store import StoredFragment, StoredHit, StoredRef, StoreRejected
from corpus.weaviate_schema import REF, TERMS

OBJECT_ID = "_id"  # Weaviate's name for it in filters
SLOTS = 1 << 52
RETURNED = search_get_pb2.PropertiesRequest(non_ref_properties=[REF])


def slot(object_id: str) -> int:
    """Where the object lies among SLOTS, evenly spread: what listing pages by."""
    return int(uuid.UUID(object_id).hex[-13:], 16)


def vector_bytes(vector: Sequence[float] | npt.NDArray[Any], dimension: int) -> bytes:
    """Little-endian float32; StoreRejected unless it has `dimension` finite numbers."""
    packed = np.asarray(vector, dtype="<f4")
    if packed.shape != (dimension,) or not np.isfinite(packed).all():
        raise StoreRejected(f"a vector must hold {dimension} finite numbers")
    return packed.tobytes()


def batch_object(
    fragment: StoredFragment, collection: str, tenant_id: TenantId, dimension: int
) -> batch_pb2.BatchObject:
    """The message that writes a fragment; StoreRejected when its attributes name another tenant."""
    attributes = fragment.attributes
    if attributes.get("tenant") != tenant_id:
        raise StoreRejected("a fragment's attributes must name the tenant that it is written to", (fragment.object_id,))
    scalars: dict[str, str | int | bool] = {
        REF: _packed(fragment),
        TERMS: lexical_terms(fragment.analysed, fragment.identifiers),
        names.FRAGMENT_ID: fragment.fragment_id,
        names.REVISION_ID: fragment.revision_id,
        names.FROM_SEQ: fragment.from_seq,
        names.TO_SEQ: fragment.to_seq,
        names.SLOT: slot(fragment.object_id),
        names.VALID_FROM: attributes.get("valid_from", names.EARLIEST),  # type: ignore[dict-item]
        names.VALID_TO: attributes.get("valid_to", names.LATEST),  # type: ignore[dict-item]
    }
    lists = []
    for attr, value in attributes.items():
        name = names.attribute_property(attr)
        if isinstance(value, tuple):
            lists.append(base_pb2.TextArrayProperties(prop_name=name, values=value))
        else:
            scalars[name] = value
    properties = Struct()
    properties.update(scalars)
    return batch_pb2.BatchObject(
        uuid=fragment.object_id,
        collection=collection,
        tenant=tenant_id,
        vector_bytes=vector_bytes(fragment.vector, dimension),
        properties=batch_pb2.BatchObject.Properties(non_ref_properties=properties, text_array_properties=lists),
    )


def hit(result: search_get_pb2.SearchResult, score: float) -> StoredHit:
    """A search result as a proposal."""
    return StoredHit(*_unpacked(result), score)


def ref(result: search_get_pb2.SearchResult) -> StoredRef:
    """A listed object."""
    return StoredRef(*_unpacked(result))


def _packed(fragment: StoredFragment) -> str:
    """All that a hit says, in one property: five of them cost a search of 50 hits a tenth of its time more."""
    values = (fragment.fragment_id, fragment.revision_id, fragment.from_seq, fragment.to_seq, fragment.access_version)
    packed = " ".join(map(str, values))
    if len(packed.split()) != len(values):
        raise StoreRejected("ids of fragments and revisions must hold no white space", (fragment.object_id,))
    return packed


def _unpacked(result: search_get_pb2.SearchResult) -> tuple[str, FragmentId, RevisionId, Seq, Seq, int]:
    packed = result.properties.non_ref_props.fields[REF].text_value.split()
    if len(packed) != 5:
        raise StoreRejected("the store answered an object that is not ours")
    fragment_id, revision_id, from_seq, to_seq, access_version = packed
    return (
        result.metadata.id,
        FragmentId(fragment_id),
        RevisionId(revision_id),
        Seq(int(from_seq)),
        Seq(int(to_seq)),
        int(access_version),
    )


def ranked(hits: Iterable[StoredHit]) -> list[StoredHit]:
    """Best first; the store leaves the order of equal scores to chance."""
    return sorted(hits, key=lambda found: (-found.score, found.object_id))
