"""What generation raises.

GenerationError(MunimentFault)
└── ProviderUnavailable   the provider can't be reached or gives nothing usable: heals without the caller

That evidence does not suffice or time ran out is no error: it is an abstention.
"""

from core.errors import MunimentFault


class GenerationError(MunimentFault):
    """Root of this room's errors."""


class ProviderUnavailable(GenerationError):
    """No claims can be had from this provider now; its adapter raises it in place of the library's errors."""
