"""Where everything of a data directory lives, and where what runs on it can be reached: agreed on in one place."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from deploy.directory import run_directory
from deploy.files import private_directory, write_private_json


class NotRunning(Exception):
    """Nothing has said where it can be reached: `muniment up` does."""


@dataclass(frozen=True)
class Layout:
    """Paths below a data directory."""

    data_dir: Path

    @property
    def catalog(self) -> Path:
        """The catalog's SQLite file."""
        return self.data_dir / "catalog" / "catalog.sqlite"

    @property
    def keys(self) -> Path:
        """Keys of tenants and documents: never in a content backup."""
        return self.data_dir / "keys" / "keys.sqlite"

    @property
    def blobs(self) -> Path:
        """Originals, canonical texts, node trees and staged vectors, encrypted."""
        return self.data_dir / "blobs"

    @property
    def workflows(self) -> Path:
        """The workflow engine's own SQLite file."""
        return self.data_dir / "workflows" / "workflows.sqlite"

    @property
    def audit(self) -> Path:
        """The folder of the audit logs."""
        return self.data_dir / "audit"

    @property
    def weaviate(self) -> Path:
        """The store's own data."""
        return self.data_dir / "weaviate"

    @property
    def bundle(self) -> Path:
        """The policy bundle that OPA is started with; built anew at each start."""
        return self.data_dir / "policy"

    @property
    def run(self) -> Path:
        """What belongs to one run: lock, state, endpoints, credentials."""
        return run_directory(self.data_dir)

    @property
    def endpoints(self) -> Path:
        """See Endpoints."""
        return self.run / "endpoints.json"

    @property
    def indexer_ready(self) -> Path:
        """Written by the indexer once it works; removed before it is started."""
        return self.run / "indexer.ready"

    def log(self, name: str) -> Path:
        """Output of the child of that name."""
        return self.data_dir / "logs" / f"{name}.log"


@dataclass(frozen=True)
class Endpoints:
    """`opa` and `weaviate_http` are URLs, `weaviate_grpc` and `gateway` are `host:port`."""

    opa: str
    weaviate_http: str
    weaviate_grpc: str
    gateway: str

    def write(self, data_dir: Path) -> None:
        """Publish them as `run/endpoints.json`, before the first process that reads it is started."""
        layout = Layout(data_dir)
        private_directory(layout.run)
        write_private_json(layout.endpoints, asdict(self))

    @classmethod
    def read(cls, data_dir: Path) -> "Endpoints":
        """Those of the running engines; NotRunning when nobody wrote any."""
        path = Layout(data_dir).endpoints
        try:
            written: Mapping[str, str] = json.loads(path.read_text())
        except FileNotFoundError as exc:
            raise NotRunning(f"{path} is not there: nothing runs on {data_dir}; start it with `muniment up`") from exc
        return cls(**{each.name: str(written[each.name]) for each in fields(cls)})
