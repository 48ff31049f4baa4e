"""Free ports for children that cannot be told to choose their own."""

from __future__ import annotations

import socket
from contextlib import ExitStack

_ATTEMPTS_PER_PORT = 100


def free_ports(count: int) -> list[int]:
    """``count`` different ports that are free for TCP and UDP on every IPv4 interface.

    All interfaces, not loopback alone, because some engine ports cannot be bound to loopback only; UDP because gossip
    uses both. Every port stays taken until the last one is picked, so none comes twice. Between this call and the
    child's own bind another process can still take one: the child then dies loudly at its start.
    """
    with ExitStack() as held:
        return [_hold_one(held) for _ in range(count)]


def _hold_one(held: ExitStack) -> int:
    for _ in range(_ATTEMPTS_PER_PORT):
        stream = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        stream.bind(("", 0))
        port: int = stream.getsockname()[1]
        datagram = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        try:
            datagram.bind(("", port))
        except OSError:
            continue  # taken for UDP: the TCP socket stays held, so the next attempt gets another port
        return port
    raise OSError(f"no port was free for both TCP and UDP in {_ATTEMPTS_PER_PORT} attempts")
