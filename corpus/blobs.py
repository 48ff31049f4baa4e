"""Blobs: originals, canonical texts, node trees and staged vectors, each encrypted under its document's key.

A name is an HMAC over tenant key, document, kind and content: equal contents of two documents are two blobs, and
nothing is shared across tenants. Keys live in a file of their own; destroying a document's key destroys its blobs.
"""

import os
import secrets
import sqlite3
import threading
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.ids import TenantId
from core.keys import keyed_digest
from corpus.errors import RecordDamaged

_NONCE_BYTES = 12


class BlobKind(StrEnum):
    """What a blob holds; part of its name."""

    ORIGINAL = "original"
    CANONICAL = "canonical"
    NODES = "nodes"
    VECTORS = "vectors"


class KeyStore:
    """Keys of tenants and documents in an SQLite file that never goes into a content backup."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE IF NOT EXISTS keys (owner TEXT PRIMARY KEY, key BLOB NOT NULL)")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def find(self, owner: str) -> bytes | None:
        """The owner's key, None where it was never made or has been destroyed."""
        with self._lock:
            row = self._connection.execute("SELECT key FROM keys WHERE owner = ?", (owner,)).fetchone()
        return None if row is None else bytes(row[0])

    def ensure(self, owner: str) -> bytes:
        """The owner's key, made where there is none."""
        found = self.find(owner)
        if found is not None:
            return found
        with self._lock:
            self._connection.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (owner, secrets.token_bytes(32)))
            row = self._connection.execute("SELECT key FROM keys WHERE owner = ?", (owner,)).fetchone()
        return bytes(row[0])


class Blobs:
    """The blob folder of one data directory. Calls block on the disk: writes belong on a thread."""

    def __init__(self, folder: Path, keys: KeyStore) -> None:
        self._folder = folder
        self._keys = keys

    def write(self, tenant_id: TenantId, document: tuple[str, str], kind: BlobKind, data: bytes) -> str:
        """Make `data` durable and answer its name; `document` is (source id, document id). Equal data: equal name."""
        name = keyed_digest(self._keys.ensure(f"tenant:{tenant_id}"), *document, kind, data)
        path = self._path(tenant_id, name)
        if path.exists():
            return name
        path.parent.mkdir(parents=True, exist_ok=True)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + AESGCM(self._keys.ensure(_owner(tenant_id, document))).encrypt(nonce, data, name.encode())
        draft = path.with_name(f"{name}.{secrets.token_hex(4)}.draft")
        try:
            with draft.open("xb") as file:
                file.write(sealed)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)
        _sync_folder(path.parent)
        return name

    def read(self, tenant_id: TenantId, document: tuple[str, str], name: str) -> bytes:
        """The blob's content; RecordDamaged when it is missing, altered, or its key is gone."""
        key = self._keys.find(_owner(tenant_id, document))
        if key is None:
            raise RecordDamaged("the document's key is gone")
        try:
            sealed = self._path(tenant_id, name).read_bytes()
            return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (OSError, InvalidTag, ValueError) as exc:  # ValueError: shorter than a nonce
            raise RecordDamaged("a blob is missing or altered") from exc

    def _path(self, tenant_id: TenantId, name: str) -> Path:
        return self._folder / tenant_id / name[:2] / name


def _owner(tenant_id: TenantId, document: tuple[str, str]) -> str:
    source_id, document_id = document
    return f"document:{tenant_id}:{len(source_id)}:{source_id}:{document_id}"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
