"""What retrieval refuses.

RetrievalError
├── ChannelsUnavailable   no channel answered: heals without the caller
├── ReleaseUnavailable    the record could not be read freshly enough to release: heals without the caller
└── AccessChanged         something of a stream's packet may no longer be seen, or the token is over: the stream ends
"""

from core.errors import MunimentFault


class RetrievalError(MunimentFault):
    """Root of this room's errors."""


class ChannelsUnavailable(RetrievalError):
    """Neither words nor meaning could be searched."""


class ReleaseUnavailable(RetrievalError):
    """Nothing was released."""


class AccessChanged(RetrievalError):
    """The stream must end here."""
