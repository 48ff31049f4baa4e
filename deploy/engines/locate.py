"""Finds an engine's binary: the one the operator names, else the cache of built ones, else PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from deploy.engines.buildinfo import module_versions
from deploy.engines.pins import EnginePin, pin
from deploy.errors import EngineUnusableError, binary_variable

_VERSION_LINE = re.compile(r"^Version:\s*v?(\d\S*)", re.MULTILINE)
_VERSION_TIMEOUT_S = 30.0


def locate(name: str) -> Path | None:
    """The pinned engine's binary, None when it must be built first.

    ``MUNIMENT_<ENGINE>_BIN`` is obeyed or refused (EngineUnusableError), never passed over; a binary of another version
    on PATH is passed over (see ``missing_reasons``). Raises UnknownEngineError.
    """
    engine = pin(name)
    named = os.environ.get(binary_variable(name))
    if named:
        return _obey(engine, Path(named).expanduser())
    cached = cached_binary(engine)
    if is_executable(cached):
        return cached
    on_path = shutil.which(engine.binary)
    if on_path is not None and version_fault(engine, Path(on_path)) is None:
        return Path(on_path)
    return None


def missing_reasons(name: str) -> list[str]:
    """Why ``locate`` finds nothing, one sentence for each place it looks at."""
    engine = pin(name)
    reasons = [f"it is not in {cached_binary(engine).parent}"]
    on_path = shutil.which(engine.binary)
    if on_path is None:
        reasons.append(f"there is no {engine.binary} on PATH")
    elif (fault := version_fault(engine, Path(on_path))) is not None:
        reasons.append(f"the one on PATH is not taken: {fault}")
    return reasons


def cache_root() -> Path:
    """Where built engines live: ``$XDG_CACHE_HOME/muniment/engines``, by default under ``~/.cache``."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG base directory specification has relative paths ignored.
    root = base if base.is_absolute() else Path.home() / ".cache"
    return root / "muniment" / "engines"


def cached_binary(engine: EnginePin) -> Path:
    """Where the built binary of this pin is, or will be."""
    return cache_root() / f"{engine.name}-{engine.version}" / engine.binary


def is_executable(path: Path) -> bool:
    """Whether this user can run the file."""
    return path.is_file() and os.access(path, os.X_OK)


def version_fault(engine: EnginePin, binary: Path) -> str | None:
    """What is wrong with the binary's version, None when it is the pinned one."""
    if not is_executable(binary):
        return f"{binary} is not an executable file"
    try:
        found = _version(engine, binary)
    except (OSError, subprocess.SubprocessError) as exc:
        return f"{binary} does not tell its version: {exc}"
    if found is None:
        return f"{binary} does not tell its version"
    if found != engine.version:
        return f"{binary} is version {found}, wanted is {engine.version}"
    return None


def _obey(engine: EnginePin, binary: Path) -> Path:
    fault = version_fault(engine, binary)
    if fault is not None:
        raise EngineUnusableError(engine.name, binary_variable(engine.name), fault)
    return binary


def _version(engine: EnginePin, binary: Path) -> str | None:
    if engine.version_command:
        answer = subprocess.run(
            [binary, *engine.version_command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=True,
        )
        if (line := _VERSION_LINE.search(answer.stdout)) is not None:
            return line[1]
    return module_versions(binary).get(engine.module)
