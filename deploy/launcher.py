"""Becomes a child's program, having asked the kernel to end it when its supervisor dies.

Run as a script: ``launcher.py SUPERVISOR_PID PROGRAM [ARGUMENT]...``. A program of its own, because the request must
be made in the child between fork and exec, where running Python code in a process with threads can deadlock. It
survives exec; it does not pass to what the program itself forks. Where the kernel has no such request (outside Linux)
the program just starts.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_CANNOT_EXECUTE = 127  # as a shell reports it


def _die_with(supervisor_pid: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if os.getppid() != supervisor_pid:  # it died before the request was made, so nothing would ever arrive
        raise SystemExit(f"supervisor {supervisor_pid} is gone")


def main(supervisor_pid: int, argv: list[str]) -> None:
    """Replace this process by ``argv``; does not return."""
    _die_with(supervisor_pid)
    # Python ignores these at its start and ignoring is inherited through exec; a program expects the defaults.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 (no shell is wanted: a list of arguments)
    except OSError as exc:
        print(f"cannot execute {argv[0]}: {exc.strerror}", file=sys.stderr)
        raise SystemExit(_CANNOT_EXECUTE) from exc


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
