"""Builds pinned engines with Go into the user's cache: whole or not at all, and once however many ask at a time."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deploy.engines.locate import cache_root, cached_binary, is_executable, locate, missing_reasons, version_fault
from deploy.engines.pins import EnginePin, pin
from deploy.errors import BuildFailedError, GoMissingError

BuildStage = Literal["found", "waiting", "downloading", "compiling", "verifying", "built"]
# Engine, stage, seconds since this engine was begun. Called at each change of stage and about twice a second between.
Progress = Callable[[str, BuildStage, float], None]

_LAUNCHER = Path(__file__).parents[1] / "launcher.py"
_TICK_S = 0.5
_KILL_GRACE_S = 5.0
_TAIL_BYTES = 4096
_REASON_LINES = 8
_FIRST_GO_THAT_FETCHES_NEWER = (1, 21)  # from then on `go` fetches the toolchain a module asks for, unless told not to
# Go's messages name the servers it asked; operators configure those themselves and find them in the log.
_ADDRESS = re.compile(r'\b(?:https?://[^\s"]+|(?:dial|lookup|read|write) (?:tcp|udp)?[^\s"]*[^:"\n]*:\d+)')


def ensure(names: Iterable[str], on_progress: Progress | None = None) -> dict[str, Path]:
    """Binaries of the named engines, building into the cache what is not there yet.

    Raises UnknownEngineError, EngineUnusableError, GoMissingError, BuildFailedError. When interrupted, Go is ended and
    nothing half-built stays behind.
    """
    report = on_progress if on_progress is not None else _ignore_progress
    return {name: _ensure_one(pin(name), report) for name in names}


def _ensure_one(engine: EnginePin, on_progress: Progress) -> Path:
    clock = _Clock(engine.name, on_progress, time.monotonic())
    found = locate(engine.name)
    if found is not None:
        clock.report("found")
        return found
    cache_root().mkdir(parents=True, exist_ok=True)
    with _only_builder(engine, clock):
        if not is_executable(cached_binary(engine)):  # another may have built it while this one waited
            _build(engine, clock)
    clock.report("built")
    return cached_binary(engine)


@dataclass(frozen=True)
class _Clock:
    engine: str
    on_progress: Progress
    begin: float

    def report(self, stage: BuildStage) -> None:
        self.on_progress(self.engine, stage, time.monotonic() - self.begin)


@contextmanager
def _only_builder(engine: EnginePin, clock: _Clock) -> Iterator[None]:
    """Hold the lock of this engine and version. The file stays: removing it would let two in."""
    descriptor = os.open(cache_root() / f".{_label(engine)}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                clock.report("waiting")
                time.sleep(_TICK_S)
        yield
    finally:
        os.close(descriptor)


def _build(engine: EnginePin, clock: _Clock) -> None:
    go = _require_go(engine)
    prefix = f".{_label(engine)}-build-"
    for leftover in cache_root().glob(f"{prefix}*"):  # of a builder that was killed: the lock is ours now
        shutil.rmtree(leftover)
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=cache_root()))
    try:
        product = work / "product"
        product.mkdir()
        scratch = work / "module"
        scratch.mkdir()
        log_path = cache_root() / f"{_label(engine)}.log"
        log_path.write_bytes(b"")
        for command in _commands(engine, go, product):
            _run(engine, command, scratch, product, log_path, clock)
        clock.report("verifying")
        fault = version_fault(engine, product / engine.binary)
        if fault is not None:
            raise BuildFailedError(engine.name, engine.version, fault, log_path)
        _install(product, cached_binary(engine).parent)
    finally:
        shutil.rmtree(work)


def _install(product: Path, target: Path) -> None:
    if target.exists():  # without a usable binary, else nothing would have been built
        shutil.rmtree(target)
    product.rename(target)


def _commands(engine: EnginePin, go: str, product: Path) -> list[list[str]]:
    if engine.recipe == "install":
        return [[go, "install", "-v", f"{engine.package}@v{engine.version}"]]
    return [
        [go, "mod", "init", "muniment.invalid/engine"],
        [go, "get", "-tool", f"{engine.module}@v{engine.version}"],
        [go, "build", "-v", "-o", str(product / engine.binary), engine.package],
    ]


def _run(engine: EnginePin, command: list[str], scratch: Path, product: Path, log_path: Path, clock: _Clock) -> None:
    """Run one step of Go in a group of its own, ended with all it started when this process is interrupted."""
    environment = {**os.environ, "GOBIN": str(product), "GOWORK": "off"}
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *command],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        while True:
            clock.report("downloading" if _is_downloading(log_path) else "compiling")
            try:
                code = process.wait(timeout=_TICK_S)
                break
            except subprocess.TimeoutExpired:
                continue
    except BaseException:
        _end_group(process)
        raise
    if code != 0:
        raise BuildFailedError(engine.name, engine.version, _reason(code, log_path), log_path)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=_KILL_GRACE_S)
        os.killpg(process.pid, signal.SIGKILL)  # compilers that outlive their parent
    except ProcessLookupError:
        process.wait()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _require_go(engine: EnginePin) -> str:
    go = shutil.which("go")
    if go is None:
        raise _go_missing(engine, "there is no go on PATH")
    asked = subprocess.run([go, "env", "GOVERSION", "GOTOOLCHAIN"], capture_output=True, text=True, check=False)
    version, toolchain, *_ = [*asked.stdout.split("\n"), "", ""]
    found = _go_version(version)
    fetches = found >= _FIRST_GO_THAT_FETCHES_NEWER and not toolchain.startswith("local")
    if found < _go_version(engine.go_minimum) and not fetches:
        raise _go_missing(engine, f"{go} is {version or 'of unknown version'}")
    return go


def _go_version(text: str) -> tuple[int, ...]:
    """Major and minor number of ``go1.26.8``, ``1.26`` or the like; empty, hence least, when it is neither."""
    match = re.match(r"(?:go)?(\d+)\.(\d+)", text.strip())
    return (int(match[1]), int(match[2])) if match is not None else ()


def _go_missing(engine: EnginePin, reason: str) -> GoMissingError:
    reasons = [*missing_reasons(engine.name), reason]
    return GoMissingError(engine.name, engine.version, engine.binary, engine.go_minimum, reasons)


def _is_downloading(log_path: Path) -> bool:
    return any(line.startswith("go: downloading") for line in _tail(log_path)[-1:])


def _reason(code: int, log_path: Path) -> str:
    said = "\n".join(_ADDRESS.sub("<address>", line) for line in _tail(log_path)[-_REASON_LINES:])
    return f"go ended with code {code}" + (f"\n{said}" if said else "")


def _tail(log_path: Path) -> list[str]:
    with log_path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _TAIL_BYTES))
        return [line for line in stream.read().decode(errors="replace").split("\n") if line.strip()]


def _label(engine: EnginePin) -> str:
    return f"{engine.name}-{engine.version}"


def _ignore_progress(engine: str, stage: BuildStage, elapsed_s: float) -> None:
    """The sink of who does not want to hear."""
