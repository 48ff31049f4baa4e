"""Root of the errors that rooms raise on purpose.

MunimentFault
├── InvalidValue        a value breaks a rule of the vocabulary (core)
├── policy.errors.*     PolicyError tree
├── corpus.errors.*     CorpusError tree
├── retrieval.errors.*  RetrievalError tree
└── generation.errors.* GenerationError tree

`gateway.errors` maps each to a status; a test walks the tree and fails on one that is not mapped.
"""


class MunimentFault(Exception):
    """Anything a room raises on purpose. The text is for operators; clients get fixed text by class."""


class InvalidValue(MunimentFault):
    """A caller's value is not acceptable: `field` is its path in the request, `why` says what would be."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why
