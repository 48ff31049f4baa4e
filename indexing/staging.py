"""Staging: the bytes of an accepted put become fragments and vectors in blobs and catalog, and nothing in the store.

Staging may be done again at any time: blobs are named by content, and the one transaction at the end looks first
whether the put is still waiting for it.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

import numpy as np

from core.document import Fragment, ParsedDocument, ParseState
from core.ids import RepresentationId, RevisionId
from corpus.blobs import Blobs
from corpus.catalog.database import Database
from corpus.catalog.documents import fail_put
from corpus.contents import (
    PendingRevision,
    Staged,
    embedding_text,
    pending_revision,
    record_staged,
    title_of,
    write_staged,
)
from corpus.encoder import Encoder, Vectors
from indexing.fragmenter import fragment
from indexing.parsers import ParseLimits, ParserPool

ENCODED_AT_ONCE = 32  # texts: a long document lets others have the encoder in between

_MESSAGES = {
    ParseState.EMPTY: "The document has no text.",
    ParseState.NO_TEXT: "The document has no text layer: it looks like a scan.",
    ParseState.ENCRYPTED: "The document is encrypted.",
    ParseState.CORRUPT: "The document can't be read: it is damaged.",
    ParseState.BAD_ENCODING: "The text is not in the encoding that it announces, or in none that is known.",
    ParseState.UNSUPPORTED: "Documents of this type are not read.",
    ParseState.TOO_LARGE: "The document is over the limit.",
    ParseState.TIMED_OUT: "Reading the document took too long.",
}


class StageOutcome(StrEnum):
    """What became of a put."""

    STAGED = "staged"
    REFUSED = "refused"  # its content can't serve: the operation has failed
    ENDED = "ended"  # it waits no longer: staged before, abandoned or failed meanwhile


class Stager:
    """Stages one revision at a time for each caller; the encoder serves them in turn. Use it in `with`."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        parsers: ParserPool,
        encoder: Encoder,
        representation_id: RepresentationId,
        limits: ParseLimits | None = None,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._parsers = parsers
        self._encoder = encoder
        self._representation_id = representation_id
        self._limits = limits
        self._encoder_thread = ThreadPoolExecutor(1, thread_name_prefix="document-encoder")

    def __enter__(self) -> "Stager":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._encoder_thread.shutdown(wait=True, cancel_futures=True)

    async def stage(self, revision_id: RevisionId) -> StageOutcome:
        """Parse, fragment, embed and record.

        Raises what may heal (CatalogUnavailable, ParserUnavailable, OSError) and what the document may be guilty of:
        RecordDamaged, EncoderFailed and whatever a parser or fragmenter raises that should not.
        """
        pending = pending_revision(self._database, revision_id)
        if pending.state != "accepted":
            return StageOutcome.ENDED
        data = await asyncio.to_thread(self._blobs.read, pending.tenant_id, pending.document, pending.original_blob)
        document = await self._parsers.parse(pending.media_type, pending.filename, data, self._limits)
        if not document.serves:
            return await self._refuse(pending, document.state)
        fragments = await asyncio.to_thread(fragment, document, revision_id)
        if not fragments:
            return await self._refuse(pending, ParseState.EMPTY)
        vectors = await self._encode(_texts(pending, document, fragments))
        staged = Staged(revision_id, document, fragments, vectors, self._representation_id)
        columns = await asyncio.to_thread(write_staged, self._blobs, pending, staged)
        recorded = await self._database.write(lambda tx: record_staged(tx, pending, staged, columns))
        return StageOutcome.STAGED if recorded else StageOutcome.ENDED

    async def _refuse(self, pending: PendingRevision, state: ParseState) -> StageOutcome:
        await self._database.write(lambda tx: fail_put(tx, pending.revision_id, state, _MESSAGES[state]))
        return StageOutcome.REFUSED

    async def _encode(self, texts: Sequence[str]) -> Vectors:
        """Shape `(len(texts), dimension)`."""
        loop = asyncio.get_running_loop()
        parts = [
            await loop.run_in_executor(
                self._encoder_thread, self._encoder.encode_documents, texts[start : start + ENCODED_AT_ONCE]
            )
            for start in range(0, len(texts), ENCODED_AT_ONCE)
        ]
        return np.concatenate(parts)


def _texts(pending: PendingRevision, document: ParsedDocument, fragments: Sequence[Fragment]) -> list[str]:
    """What is embedded; the title is the one that `record_staged` will write, which publishing analyses."""
    title = title_of(pending.title, document.title)
    return [embedding_text(title, each.section_path, each.span.cut(document.text)) for each in fragments]
