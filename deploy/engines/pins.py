"""The pinned engines, read from ``pins.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from deploy.errors import PinsInvalidError, UnknownEngineError

Recipe = Literal["install", "tool"]

_PINS_PATH = Path(__file__).with_name("pins.toml")


@dataclass(frozen=True)
class EnginePin:
    """One engine: what is built (Go module and package), how, and how its version is asked for."""

    name: str
    version: str
    module: str
    package: str
    recipe: Recipe
    binary: str
    go_minimum: str
    version_command: tuple[str, ...] = ()


@cache
def load_pins() -> Mapping[str, EnginePin]:
    """All pins by engine name. Raises PinsInvalidError."""
    try:
        document = tomllib.loads(_PINS_PATH.read_text())
        go_minimum = _text(document, "go_minimum")
        pins = {name: _pin(name, go_minimum, table) for name, table in document["engines"].items()}
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as exc:
        raise PinsInvalidError(f"{_PINS_PATH.name}: {exc}") from exc
    return MappingProxyType(pins)


def pin(name: str) -> EnginePin:
    """One engine's pin. Raises UnknownEngineError."""
    pins = load_pins()
    if name not in pins:
        raise UnknownEngineError(name, tuple(pins))
    return pins[name]


def _pin(name: str, go_minimum: str, table: dict[str, Any]) -> EnginePin:
    return EnginePin(
        name=name,
        version=_text(table, "version"),
        module=_text(table, "module"),
        package=_text(table, "package"),
        recipe=_recipe(_text(table, "recipe")),
        binary=_text(table, "binary"),
        go_minimum=go_minimum,
        version_command=tuple(str(word) for word in table.get("version_command", ())),
    )


def _text(table: dict[str, Any], key: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} must be a text that is not empty")
    return value


def _recipe(text: str) -> Recipe:
    match text:
        case "install":
            return "install"
        case "tool":
            return "tool"
    raise ValueError(f"recipe {text!r} is neither 'install' nor 'tool'")
