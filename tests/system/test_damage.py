"""A damaged record: nothing of it is released, nothing that a library says about it is told, and the rest serves."""

import sqlite3
from pathlib import Path

import grpc
import pytest
from muniment import Access, NotFound
from muniment.v1 import evidence_pb2

from tests.system.whole import System, publish
from tests.system.wire import Outcome, ask, ask_patiently, bearer, channel_to

TENANT = "acme"
PUBLIC = Access(public=True)
TEXTS = {
    "orchard": "# Orchard\n\nThe orchard opens at nine in the morning.\n",
    "bakery": "# Bakery\n\nThe bakery opens at six in the morning.\n",
}
LEAKS = ("/", "sqlite", "Traceback", "InvalidTag", "blob", "orchard", "Errno", "cryptography", "key")


@pytest.fixture(scope="module", autouse=True)
async def evidence(fragile: System) -> dict[str, str]:
    """Evidence ids by document."""
    async with fragile.admin(TENANT) as admin:
        await admin.create_source("shops", access_template=PUBLIC)
        await publish(admin, "shops", TEXTS)
        packet = await admin.search("When does it open?")
    return {item.document_id: item.evidence_id for item in packet.evidence}


def canonical_blob(system: System, document: str) -> Path:
    (name,) = system.catalog.read(
        "SELECT r.canonical_blob FROM revisions r JOIN documents d ON d.document_key = r.document_key "
        "WHERE d.document_id = ? AND d.tenant_id = ?",
        (document, system.tenant_id(TENANT)),
    )[0]
    return system.layout.blobs / system.tenant_id(TENANT) / str(name)[:2] / str(name)


async def resolved(system: System, evidence_id: str) -> Outcome:
    async with channel_to(system.address) as channel:
        request = evidence_pb2.ResolveCitationRequest(evidence_id=evidence_id)
        return await ask(channel, "ResolveCitation", request, bearer(system.token("ada", TENANT)))


def assert_says_nothing(outcome: Outcome) -> None:
    assert (outcome.code, outcome.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert outcome.text == "Internal error. Request ID."
    assert outcome.answers == ()
    assert not [leak for leak in LEAKS if leak in outcome.said.replace('key: "request_id"', "")]


async def opened(system: System) -> Outcome:
    async with channel_to(system.address) as channel:
        request = evidence_pb2.SearchRequest(query="When does the orchard open?")
        return await ask_patiently(channel, "Search", request, bearer(system.token("ada", TENANT)))


@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing", "foreign"])
async def test_a_damaged_blob_is_never_shown(damage: str, fragile: System, evidence: dict[str, str]) -> None:
    path, other = canonical_blob(fragile, "orchard"), canonical_blob(fragile, "bakery")
    good = path.read_bytes()
    damaged = {"flipped": good[:-1] + bytes([good[-1] ^ 1]), "truncated": good[:5], "foreign": other.read_bytes()}
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(damaged[damage])
    try:
        assert_says_nothing(await resolved(fragile, evidence["orchard"]))
        assert_says_nothing(await opened(fragile))
        whole = await resolved(fragile, evidence["bakery"])
        assert whole.answers[0].evidence.passages[0].text
    finally:
        path.write_bytes(good)
    assert (await resolved(fragile, evidence["orchard"])).code is grpc.StatusCode.OK


async def test_without_its_key_a_document_is_gone(fragile: System, evidence: dict[str, str]) -> None:
    owner = f"document:{fragile.tenant_id(TENANT)}:5:shops:orchard"
    connection = sqlite3.connect(fragile.layout.keys, isolation_level=None)
    try:
        (key,) = connection.execute("SELECT key FROM keys WHERE owner = ?", (owner,)).fetchone()
        connection.execute("DELETE FROM keys WHERE owner = ?", (owner,))
        try:
            assert_says_nothing(await resolved(fragile, evidence["orchard"]))
            assert_says_nothing(await opened(fragile))
            assert (await resolved(fragile, evidence["bakery"])).code is grpc.StatusCode.OK
        finally:
            connection.execute("INSERT INTO keys VALUES (?, ?)", (owner, key))
    finally:
        connection.close()
    assert (await resolved(fragile, evidence["orchard"])).code is grpc.StatusCode.OK


async def test_a_text_that_is_not_the_catalogs_is_not_shown(fragile: System, evidence: dict[str, str]) -> None:
    """Encrypted under the right key and name, and still another text: its hash is not the record's (I6)."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    path = canonical_blob(fragile, "orchard")
    good = path.read_bytes()
    owner = f"document:{fragile.tenant_id(TENANT)}:5:shops:orchard"
    connection = sqlite3.connect(fragile.layout.keys, isolation_level=None)
    (key,) = connection.execute("SELECT key FROM keys WHERE owner = ?", (owner,)).fetchone()
    connection.close()
    forged = TEXTS["orchard"].replace("nine", "five").encode()
    path.write_bytes(good[:12] + AESGCM(key).encrypt(good[:12], forged, path.name.encode()))
    try:
        assert_says_nothing(await resolved(fragile, evidence["orchard"]))
        assert_says_nothing(await opened(fragile))
    finally:
        path.write_bytes(good)


async def test_the_log_knows_what_the_client_is_not_told(fragile: System, evidence: dict[str, str]) -> None:
    path = canonical_blob(fragile, "orchard")
    good = path.read_bytes()
    path.unlink()
    try:
        await resolved(fragile, evidence["orchard"])
    finally:
        path.write_bytes(good)
    assert "RecordDamaged" in fragile.log("gateway")
    async with fragile.client("ada", TENANT) as ada:
        with pytest.raises(NotFound):
            await ada.get_document("shops", "none")
