"""Figures and the file that they are kept in: a JSON list of {name, value, unit, n, note}, sorted by name."""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One measured number. Names are stable: they are compared over years. `n`: how many observations."""

    name: str
    value: float
    unit: str
    n: int
    note: str = ""

    def __post_init__(self) -> None:
        if not self.name or not math.isfinite(self.value):
            raise ValueError(f"a figure has a name and a finite value: {self.name!r} is {self.value}")


@dataclass(frozen=True)
class Target:
    """What a figure must reach: `at_least` or else at most `bound`."""

    name: str
    bound: float
    at_least: bool

    def met_by(self, figure: Figure) -> bool:
        """Whether it does."""
        return figure.value >= self.bound if self.at_least else figure.value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


@dataclass(frozen=True)
class Verdict:
    """Whether every target that was measured is met; `text` is one line with the figures."""

    passed: bool
    text: str


def read(path: Path) -> list[Figure]:
    """What the file holds; nothing where there is none. ValueError when it is not such a file."""
    if not path.exists():
        return []
    try:
        return [Figure(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (TypeError, ValueError) as exc:
        raise ValueError(f"{path} is no file of figures: delete it") from exc


def merge(path: Path, measured: Sequence[Figure], only: str = "") -> list[Figure]:
    """Put `measured` into the file and answer what it holds then.

    A run of everything (`only` empty) replaces the file. A part replaces the figures of its prefix, also those that
    are measured no more, and leaves the others. Whole or not at all. ValueError for a name twice or outside of `only`.
    """
    names = [figure.name for figure in measured]
    if len(set(names)) != len(names):
        raise ValueError("a figure was measured twice")
    strays = [name for name in names if not name.startswith(only)]
    if strays:
        raise ValueError(f"figures outside of {only}: {', '.join(strays)}")
    kept = [figure for figure in read(path) if only and not figure.name.startswith(only)]
    figures = sorted([*kept, *measured], key=lambda figure: figure.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps([asdict(f) for f in figures], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)
    return figures


def verdict(measured: Iterable[Figure], targets: Iterable[Target]) -> Verdict:
    """On the targets that `measured` has figures for. Nothing measured is no pass; figures without targets are one."""
    by_name = {figure.name: figure for figure in measured}
    judged = [(target, by_name[target.name]) for target in targets if target.name in by_name]
    passed = bool(by_name) and all(target.met_by(figure) for target, figure in judged)
    said = [
        f"{figure.name} {figure.value:.4g} ({target}{'' if target.met_by(figure) else ', MISSED'})"
        for target, figure in judged
    ]
    return Verdict(
        passed, f"{'PASS' if passed else 'FAIL'}: {'; '.join(said) or f'{len(by_name)} figures, none with a target'}"
    )


def show(figures: Iterable[Figure]) -> str:
    """A line each, for people."""
    return "\n".join(
        f"{figure.name:32} {figure.value:10.4f} {figure.unit:6} n={figure.n:<6} {figure.note}".rstrip()
        for figure in figures
    )
