"""Parts of a measurement, and the one way to run them: `--only PREFIX`, a file of figures, a verdict as last line."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.datasets import DatasetMissing
from evaluation.figures import Figure, Target, merge, show, verdict
from evaluation.system import System, started

TOKEN_VARIABLE = "MUNIMENT_TOKEN"  # noqa: S105 - its name
NOWHERE = System("")  # for parts without tenants


@dataclass(frozen=True)
class Part:
    """What one module measures: figures whose names begin with `prefix`. Without `tenants` it needs no system."""

    prefix: str
    tenants: tuple[str, ...]
    measure: Callable[[System], Awaitable[list[Figure]]]
    targets: Sequence[Target]


def run(name: str, about: str, parts: Sequence[Part], figures: Path, arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 when every target of what was measured is met, 1 when one is missed, 2 when nothing could be."""
    options = _options(name, about, figures).parse_args(arguments)
    only: str = options.only
    chosen = [part for part in parts if part.prefix.startswith(only) or only.startswith(part.prefix)]
    if not chosen:
        sys.stderr.write(f"nothing is called {only}: {', '.join(part.prefix for part in parts)}\n")
        return 2
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is stopped, as after Ctrl-C
    try:
        measured = _measured(chosen, options.address, options.data_dir)
    except DatasetMissing as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    finally:
        signal.signal(signal.SIGTERM, former)
    measured = [figure for figure in measured if figure.name.startswith(only)]
    merge(options.figures, measured, only)
    judged = verdict(measured, [target for part in chosen for target in part.targets])
    sys.stdout.write(f"{show(measured)}\n{judged.text}\n")
    return 0 if judged.passed else 1


def _measured(parts: Sequence[Part], address: str, data_dir: Path | None) -> list[Figure]:
    tenants = dict.fromkeys(tenant for part in parts for tenant in part.tenants)
    if address:
        return asyncio.run(_each(parts, System(address, fixed_token=os.environ.get(TOKEN_VARIABLE, ""))))
    if not tenants:
        return asyncio.run(_each(parts, NOWHERE))
    with started(tenants, data_dir) as system:
        return asyncio.run(_each(parts, system))


async def _each(parts: Sequence[Part], system: System) -> list[Figure]:
    return [figure for part in parts for figure in await part.measure(system)]


def _options(name: str, about: str, figures: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=about)
    parser.add_argument("--only", default="", metavar="PREFIX", help="measure only figures that begin so")
    parser.add_argument("--address", default="", help=f"ask this system, with the token in {TOKEN_VARIABLE}")
    parser.add_argument("--data-dir", type=Path, help="keep everything here, to go on with it the next time")
    parser.add_argument("--figures", type=Path, default=figures, help=f"the file of figures [{figures}]")
    return parser
