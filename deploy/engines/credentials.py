"""The generated secrets with which engines are reached; they stay with a data directory across restarts."""

from __future__ import annotations

import json
import secrets
import stat
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Self

from deploy.directory import run_directory
from deploy.errors import CredentialsUnusableError
from deploy.files import private_directory, write_private_json

_SECRET_BYTES = 32


@dataclass(frozen=True)
class EngineCredentials:
    """OPA's bearer token, Weaviate's API key, and the user and password of Weaviate's data port."""

    opa_token: str = field(repr=False)
    weaviate_api_key: str = field(repr=False)
    cluster_user: str = field(repr=False)
    cluster_password: str = field(repr=False)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, str) or not value:
                # An empty one would switch the engine's check off.
                raise ValueError(f"{each.name} must be a text that is not empty")

    @classmethod
    def generate(cls) -> Self:
        """New random ones; URL-safe text, so free of the comma and colon that Weaviate splits at."""
        return cls(*(secrets.token_urlsafe(_SECRET_BYTES) for _ in fields(cls)))

    @classmethod
    def load(cls, data_directory: Path) -> Self | None:
        """Those of the data directory, None when it has none yet. Raises CredentialsUnusableError."""
        path = _path(data_directory)
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise CredentialsUnusableError(path, f"others may access it (mode {mode:04o})")
        try:
            return cls(**json.loads(content))
        except (ValueError, TypeError) as exc:
            # Without the cause's text: it may quote the content.
            raise CredentialsUnusableError(path, "it does not hold the four credentials") from exc

    @classmethod
    def load_or_generate(cls, data_directory: Path) -> Self:
        """Those of the data directory, generated and saved at its first start. Raises CredentialsUnusableError."""
        found = cls.load(data_directory)
        if found is None:
            found = cls.generate()
            found.save(data_directory)
        return found

    def save(self, data_directory: Path) -> None:
        """Write ``run/credentials.json``, mode 0600."""
        private_directory(run_directory(data_directory))
        write_private_json(_path(data_directory), asdict(self))


def _path(data_directory: Path) -> Path:
    return run_directory(data_directory) / "credentials.json"
