"""What the corpus refuses, and why.

CorpusError
├── NotFound              absent, or not visible: never told apart
├── NotAllowed            the principal lacks the right
├── AlreadyExists
├── EtagMismatch          the document or source changed since its caller looked
├── BuildNotOpen          published, abandoned or being published
├── SnapshotUnavailable   unknown, rolled back, below what is kept, or too stale
├── IdempotencyConflict   the key was used with another request
├── AccessMissing         the put names none and its source has no template
├── ContentMismatch       size or SHA-256 are not as announced
├── ContentTooLarge
├── UnsupportedFormat     not one of the accepted media types
├── OlderSourceVersion
├── CatalogUnavailable    heals without the caller
├── LeaseLost             another worker publishes this tenant now
└── RecordDamaged         a blob is missing or does not match its hash
"""

from core.errors import MunimentFault


class CorpusError(MunimentFault):
    """Root of this room's errors."""


class NotFound(CorpusError):
    """Absent, or not visible to who asks."""


class NotAllowed(CorpusError):
    """The principal may see that the thing exists but not do this to it."""


class AlreadyExists(CorpusError):
    """The id is taken."""


class EtagMismatch(CorpusError):
    """The stored object is not the one that the caller saw."""


class BuildNotOpen(CorpusError):
    """The build takes no more puts and can't be published or abandoned."""


class SnapshotUnavailable(CorpusError):
    """No such snapshot can be read."""


class IdempotencyConflict(CorpusError):
    """The key belongs to another request."""


class AccessMissing(CorpusError):
    """A document must have an access."""


class ContentMismatch(CorpusError):
    """The content is not what its metadata announced."""


class ContentTooLarge(CorpusError):
    """The content is over the limit."""


class OlderSourceVersion(CorpusError):
    """The source has already given a newer version."""


class CatalogUnavailable(CorpusError):
    """The catalog can't be read or written now."""


class LeaseLost(CorpusError):
    """The publication lease is somebody else's."""


class RecordDamaged(CorpusError):
    """A blob is missing, altered, or under a destroyed key."""


class UnsupportedFormat(CorpusError):
    """The document's format is not accepted."""
