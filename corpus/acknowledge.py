"""When a denial may be acknowledged, and until when a cleared message may still leave (I5).

A message leaves strictly less than SEND_BOUND_S after the start of its clearing read; a denial is acknowledged
ACKNOWLEDGE_AFTER_S after its commit. The difference is the longest stall between the check of a message's age and its
hand-over that is tolerated.
"""

import asyncio

SEND_BOUND_S = 0.030
ACKNOWLEDGE_AFTER_S = 0.050


async def acknowledgeable() -> None:
    """Wait, after the commit of a command, until no message that was cleared before it can still leave."""
    await asyncio.sleep(ACKNOWLEDGE_AFTER_S)
