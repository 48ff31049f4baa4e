"""The representations that this version can make."""

from core.representation import FRAGMENTER_VERSION, Representation
from corpus import encoder
from corpus.analyser import ANALYSER_VERSION


def default_representation(fragmenter: str = FRAGMENTER_VERSION) -> Representation:
    """MiniLM vectors and our analysed English; `fragmenter` is the version of the fragmenter that feeds it."""
    return Representation(
        embedding_model=encoder.MODEL,
        embedding_revision=encoder.model_revision(),
        query_prefix="",
        document_prefix="",
        pooling="mean",
        normalised=True,
        max_tokens=encoder.MAX_TOKENS,
        dimension=encoder.DIMENSION,
        distance="cosine",
        analyser=ANALYSER_VERSION,
        fragmenter=fragmenter,
        index="hnsw",
    )
