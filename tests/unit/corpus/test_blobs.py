"""Blobs are durable with the folders that hold them, private, and whole again when they are sent again."""

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.ids import TenantId
from corpus.blobs import BlobKind, Blobs, KeyStore
from corpus.errors import RecordDamaged

TENANT = TenantId("t" * 32)
DOCUMENT = ("files", "plan")


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[KeyStore]:
    store = KeyStore(tmp_path / "keys" / "keys.sqlite")
    yield store
    store.close()


def write(blobs: Blobs, data: bytes = b"text") -> str:
    return blobs.write(TENANT, DOCUMENT, BlobKind.ORIGINAL, data)


def test_every_new_folder_is_synced_into_the_one_above(
    tmp_path: Path, keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, synced = tmp_path / "blobs", set[Path]()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    name = write(Blobs(folder, keys))
    assert {tmp_path, folder, folder / TENANT, folder / TENANT / name[:2]} <= synced
    synced.clear()
    write(Blobs(folder, keys))  # another writer may have been killed between its rename and its sync
    assert folder / TENANT / name[:2] in synced


def test_nobody_else_may_look_into_the_folders(tmp_path: Path, keys: KeyStore) -> None:
    write(Blobs(tmp_path / "blobs", keys))
    folders = [tmp_path / "keys", tmp_path / "blobs", *(p for p in (tmp_path / "blobs").rglob("*") if p.is_dir())]
    assert {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o700}


def test_what_is_damaged_is_whole_again_when_it_is_sent_again(tmp_path: Path, keys: KeyStore) -> None:
    blobs = Blobs(tmp_path / "blobs", keys)
    name = write(blobs)
    path = tmp_path / "blobs" / TENANT / name[:2] / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RecordDamaged):
        blobs.read(TENANT, DOCUMENT, name)
    assert write(blobs) == name
    assert blobs.read(TENANT, DOCUMENT, name) == b"text"


def test_a_key_is_found_while_another_is_being_made(keys: KeyStore) -> None:
    key = keys.ensure("one")
    found: list[bytes | None] = []
    with keys._lock:  # as long as a new key is on its way to the disk
        reader = threading.Thread(target=lambda: found.append(keys.find("one")))
        reader.start()
        reader.join(5)
    assert found == [key]


def test_a_size_tells_long_from_short_and_nothing_of_what_is_missing(tmp_path: Path, keys: KeyStore) -> None:
    blobs = Blobs(tmp_path / "blobs", keys)
    assert 5_000 <= blobs.size(TENANT, write(blobs, b"x" * 5_000)) < 5_100
    assert blobs.size(TENANT, "0" * 64) == 0
