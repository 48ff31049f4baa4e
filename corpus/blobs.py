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
        make_folder(path.parent)
        path.touch(mode=0o600)
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._connection = _connection(path)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE IF NOT EXISTS keys (owner TEXT PRIMARY KEY, key BLOB NOT NULL)")
        self._reader = _connection(path)  # of its own, so that a read on the event loop never waits for a key's fsync

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
        self._connection.close()

    def find(self, owner: str) -> bytes | None:
        """The owner's key, None where it was never made or has been destroyed."""
        with self._reading:
            row = self._reader.execute("SELECT key FROM keys WHERE owner = ?", (owner,)).fetchone()
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
        self._folder = str(folder)
        self._keys = keys

    def write(self, tenant_id: TenantId, document: tuple[str, str], kind: BlobKind, data: bytes) -> str:
        """Make `data` durable and answer its name; `document` is (source id, document id). Equal data: equal name.

        A blob of that name that is damaged is written anew: who sends a document again has it whole again.
        """
        name = keyed_digest(self._keys.ensure(f"tenant:{tenant_id}"), *document, kind, data)
        path = Path(self._path(tenant_id, name))
        if path.exists() and self._is_whole(tenant_id, document, name):
            _sync_folder(path.parent)  # whoever wrote it may not have come so far yet
            return name
        make_folder(path.parent)
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
            with open(self._path(tenant_id, name), "rb", buffering=0) as file:  # noqa: PTH123 - see _path
                sealed = file.read()
            return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (OSError, InvalidTag, ValueError) as exc:  # ValueError: shorter than a nonce
            raise RecordDamaged("a blob is missing or altered") from exc

    def size(self, tenant_id: TenantId, name: str) -> int:
        """Bytes on the disk; 0 when it is missing, which `read` will say."""
        try:
            return os.stat(self._path(tenant_id, name)).st_size  # noqa: PTH116 - see _path
        except OSError:
            return 0

    def _is_whole(self, tenant_id: TenantId, document: tuple[str, str], name: str) -> bool:
        try:
            self.read(tenant_id, document, name)
        except RecordDamaged:
            return False
        return True

    def _path(self, tenant_id: TenantId, name: str) -> str:
        """Text, as a search asks for fifty of them and pathlib takes 20 µs each."""
        return f"{self._folder}/{tenant_id}/{name[:2]}/{name}"


def _owner(tenant_id: TenantId, document: tuple[str, str]) -> str:
    source_id, document_id = document
    return f"document:{tenant_id}:{len(source_id)}:{source_id}:{document_id}"


def make_folder(folder: Path) -> None:
    """Make it and what is missing above it, for their owner alone and durably: a file's own fsync does not keep the
    entries of new folders, with which it would be lost in a power cut."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(each.parent)


def _connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
