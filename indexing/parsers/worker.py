"""The child process that reads hostile files: `python -m indexing.parsers.worker`.

It has no network where the kernel lets it drop it (its first message says so), no environment, no open file of its
parent, may write no file, and lives under limits of memory and of processor time for each document. It answers on a
private copy of standard output, so that nothing a native library prints can be taken for an answer.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from indexing.parsers import wire
from indexing.parsers.formats import parse

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def main(memory_bytes: int) -> None:
    """Serve requests from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    removed = _drop_network()
    _limit(memory_bytes)
    import_module("kreuzberg")  # before the first message: what fails here is no document's fault
    _send(answers, json.dumps({"network_removed": removed, "pid": os.getpid()}).encode())
    requests = sys.stdin.buffer
    while (head := wire.read_message(requests)) is not None:
        media_type, filename, limits, cpu_s = wire.decode_request(head)
        data = wire.read_message(requests)
        if data is None:
            return
        _allow_cpu(cpu_s)
        _send(answers, wire.encode_document(parse(media_type, filename, data, limits)))


def _send(answers: BinaryIO, payload: bytes) -> None:
    answers.write(wire.framed(payload))
    answers.flush()


def _drop_network() -> bool:
    """Move into a network namespace without interfaces; as an ordinary user by way of a user namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    user, group = os.getuid(), os.getgid()
    removed: bool = libc.unshare(_CLONE_NEWNET) == 0
    if not removed and libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        removed = True
        for name, value in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(value, encoding="ascii")
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return removed


def _limit(memory_bytes: int) -> None:
    for what, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (value, value))


def _allow_cpu(seconds: int) -> None:
    """The next `seconds` of processor time are allowed; then SIGXCPU ends the process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = int(usage.ru_utime + usage.ru_stime) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used + seconds, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(int(sys.argv[1]))
