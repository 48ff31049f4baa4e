"""Helpers of the tests of this room."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import pytest


class Eventually(Protocol):
    """Polls a condition until it holds; fails when it has not within the time."""

    async def __call__(self, condition: Callable[[], bool], timeout_s: float = 10.0) -> None: ...


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    async def poll(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"did not hold within {timeout_s} s")
            await asyncio.sleep(0.01)

    return poll


@pytest.fixture(scope="session")
def alive() -> Callable[[int], bool]:
    """Whether a process with that pid runs; a zombie that nobody has reaped yet does not."""

    def look(pid: int) -> bool:
        try:
            status = Path(f"/proc/{pid}/stat").read_text() if Path("/proc/self").exists() else None
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return status is None or status.rsplit(")", 1)[1].split()[0] not in "ZX"

    return look


@pytest.fixture
def always_ready() -> Callable[[], Awaitable[bool]]:
    async def ready() -> bool:
        return True

    return ready
