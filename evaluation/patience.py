"""Asking again what heals without the caller: a busy machine is no fault of what is measured."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from muniment import Unavailable

P = ParamSpec("P")
T = TypeVar("T")

ATTEMPTS = 6
PAUSE_S = 0.5


async def patiently(call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the call answers, tried again after the pause that the system asks for; at last its Unavailable."""
    for attempt in range(1, ATTEMPTS):
        try:
            return await call(*args, **kwargs)
        except Unavailable as exc:
            await asyncio.sleep((exc.retry_after or PAUSE_S) * attempt)
    return await call(*args, **kwargs)
