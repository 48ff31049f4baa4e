"""The system under measurement, started and asked as any user would: by the `muniment` command and the client."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.progress import say

COMMAND = Path(sys.executable).with_name("muniment")
ENCODER_THREADS = 2  # nothing is served while the corpus goes in


class CommandFailed(Exception):
    """The text is the command and what it said."""


@dataclass(frozen=True)
class System:
    """A system that runs. `fixed_token`: the only token, where the system is somebody else's."""

    address: str
    data_dir: Path | None = None
    fixed_token: str = ""

    def token(self, subject: str, tenant: str, *, groups: Iterable[str] = (), roles: Iterable[str] = ()) -> str:
        """A token of the development issuer, good for an hour."""
        if self.data_dir is None:
            return self.fixed_token
        options = [part for group in groups for part in ("--group", group)]
        options += [part for role in roles for part in ("--role", role)]
        return muniment("token", subject, "--tenant", tenant, *options, "--data-dir", str(self.data_dir)).strip()


def muniment(*arguments: str, allowed: tuple[int, ...] = (0,)) -> str:
    """What the command says; CommandFailed for another exit status than those allowed."""
    done = subprocess.run([str(COMMAND), *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in allowed:
        raise CommandFailed(f"muniment {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


@contextmanager
def started(tenants: Iterable[str], data_dir: Path | None = None) -> Iterator[System]:
    """Start everything, stop everything. Without `data_dir`, on a folder that is gone afterwards."""
    if data_dir is None:
        with tempfile.TemporaryDirectory(prefix="muniment-") as folder, started(tenants, Path(folder)) as system:
            yield system
        return
    data_dir.mkdir(parents=True, exist_ok=True)
    _write_settings(data_dir, tenants)
    say(f"Starting everything on {data_dir}")
    muniment("up", "--detach", "--data-dir", str(data_dir))
    try:
        yield System(str(_status(data_dir)["addresses"]["gateway"]), data_dir)
    finally:
        muniment("down", "--data-dir", str(data_dir))


def _write_settings(data_dir: Path, tenants: Iterable[str]) -> None:
    lines = [f"[[tenants]]\nname = {json.dumps(tenant)}\n" for tenant in tenants]
    lines.append(f"[indexer]\nencoder_threads = {ENCODER_THREADS}\n")
    (data_dir / "muniment.toml").write_text("\n".join(lines), encoding="utf-8")


def _status(data_dir: Path) -> Mapping[str, Any]:
    status: Mapping[str, Any] = json.loads(muniment("status", "--json", "--data-dir", str(data_dir)))
    return status
