"""Readiness probes of children on loopback.

A probe is an argument-less coroutine function that answers whether its child serves. "Not yet" is an answer (False);
what is raised is a fault of the probe and stops the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

LOOPBACK = "127.0.0.1"

ReadinessProbe = Callable[[], Awaitable[bool]]

_ATTEMPT_TIMEOUT_S = 2.0


def tcp_ready(port: int) -> ReadinessProbe:
    """Ready once something accepts TCP connections on the loopback port."""

    async def probe() -> bool:
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(LOOPBACK, port), _ATTEMPT_TIMEOUT_S)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    return probe


def http_ready(port: int, path: str, headers: Mapping[str, str] | None = None) -> ReadinessProbe:
    """Ready once ``GET path`` on the loopback port answers with a 2xx status."""

    async def probe() -> bool:
        try:
            status = await asyncio.wait_for(_get_status(port, path, headers or {}), _ATTEMPT_TIMEOUT_S)
        except (OSError, TimeoutError):
            return False
        return status is not None and 200 <= status < 300

    return probe


async def _get_status(port: int, path: str, headers: Mapping[str, str]) -> int | None:
    """Status of one GET, None when the answer is not HTTP (a child that is cut off while it starts)."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        lines = [f"GET {path} HTTP/1.1", f"Host: {LOOPBACK}:{port}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await writer.drain()
        words = (await reader.readline()).split()
    finally:
        writer.close()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return None
    return int(words[1])
