"""Representation: how fragments become searchable, fully versioned."""

from dataclasses import asdict, dataclass

from core.ids import RepresentationId
from core.keys import digest

# Of `indexing.fragmenter`; here because the corpus, which states the representation, can't import indexing. Step it
# whenever a fragment of any document would begin or end elsewhere.
FRAGMENTER_VERSION = "structure-2"


@dataclass(frozen=True)
class Representation:
    """Everything that changes a vector, an analysed text or a fragment's boundaries. Two that differ never mix."""

    embedding_model: str
    embedding_revision: str
    query_prefix: str
    document_prefix: str
    pooling: str
    normalised: bool
    max_tokens: int
    dimension: int
    distance: str
    analyser: str
    fragmenter: str
    index: str

    @property
    def representation_id(self) -> RepresentationId:
        """16 hex digits over all fields."""
        parts = [f"{name}={value}" for name, value in sorted(asdict(self).items())]
        return RepresentationId(digest(*parts)[:16])
