"""Each way not to be who one says: refused in the same words by every kind of RPC, and nothing is changed."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from muniment import Access
from muniment.v1 import common_pb2, document_pb2, evidence_pb2, source_pb2

from tests.system.ledger import nothing_changes
from tests.system.whole import LONELY, System
from tests.system.wire import METHODS, Metadata, ask, bearer, channel_to

TENANT = "globex"
WRITER = {"roles": ["reader", "writer", "publisher"], "groups": ["staff"]}


def signed_with_public_key(system: System) -> str:
    """HS256, with the bytes of the issuer's public RSA key as the shared secret (J1)."""
    secret = system.main.rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = {"alg": "HS256", "typ": "JWT", "kid": system.main.rsa_kid}
    parts = [json.dumps(part).encode() for part in (header, system.main.claims("eve", TENANT, **WRITER))]
    text = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    mac = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return text + "." + base64.urlsafe_b64encode(mac).decode().rstrip("=")


def unsigned(system: System) -> str:
    header = {"alg": "none", "typ": "JWT", "kid": system.main.kid}
    parts = [json.dumps(part).encode() for part in (header, system.main.claims("eve", TENANT, **WRITER))]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


TOKENS: dict[str, Callable[[System], str]] = {
    "expired": lambda s: s.main.mint("eve", TENANT, iat=int(time.time()) - 900, exp=int(time.time()) - 300, **WRITER),
    "without expiry": lambda s: s.main.mint("eve", TENANT, exp=None, **WRITER),
    "for another audience": lambda s: s.main.mint("eve", TENANT, aud="another-service", **WRITER),
    "without audience": lambda s: s.main.mint("eve", TENANT, aud=None, **WRITER),
    "of an unknown issuer": lambda s: s.main.mint("eve", TENANT, iss="https://login.evil.example", **WRITER),
    "of the issuer's prefix": lambda s: s.main.mint("eve", TENANT, iss=s.main.issuer[:12], **WRITER),
    "signed by another issuer": lambda s: s.main.sign(s.main.claims("eve", TENANT, **WRITER), key=s.narrow.key),
    "signed by another issuer under its kid": lambda s: s.main.sign(
        s.main.claims("eve", TENANT, **WRITER), key=s.narrow.key, kid=s.narrow.kid
    ),
    "for a tenant outside its issuer's set": lambda s: s.narrow.mint("eve", TENANT),
    "for another issuer's tenant": lambda s: s.main.mint("eve", LONELY, **WRITER),
    "for a tenant that is not there": lambda s: s.main.mint("eve", "nowhere", **WRITER),
    "with a role outside its issuer's set": lambda s: s.narrow.mint("eve", LONELY, roles=["publisher"]),
    "with groups as text": lambda s: s.main.mint("eve", TENANT, groups="staff", roles=["reader", "publisher"]),
    "without groups": lambda s: s.main.mint("eve", TENANT, groups=None, roles=["reader", "publisher"]),
    "HS256 with the public key": signed_with_public_key,
    "unsigned": unsigned,
    "no token at all": lambda _: "",
}
EVIL = source_pb2.Source(source_id="evil", trust=common_pb2.TRUST_TIER_REVIEWED)
CALLS: dict[str, Message | list[Message]] = {
    "ListDocuments": document_pb2.ListDocumentsRequest(),
    "Search": evidence_pb2.SearchRequest(query="anything"),
    "Answer": evidence_pb2.AnswerRequest(search=evidence_pb2.SearchRequest(query="anything")),
    "CreateSource": source_pb2.CreateSourceRequest(
        source=source_pb2.Source(source_id="evil", trust=common_pb2.TRUST_TIER_REVIEWED)
    ),
    "PutDocument": [document_pb2.PutDocumentRequest(metadata=document_pb2.DocumentMetadata(source_id="ours"))],
    "SetAccess": document_pb2.SetAccessRequest(source_id="ours", document_id="one", access=Access(public=True)),
}


async def refused(system: System, metadata: Metadata, code: grpc.StatusCode, reason: str) -> None:
    async with nothing_changes(system, TENANT, LONELY), channel_to(system.address) as channel:
        told = [await ask(channel, rpc, request, metadata) for rpc, request in CALLS.items()]
    assert {(outcome.code, outcome.reason) for outcome in told} == {(code, reason)}
    assert len({(outcome.text, outcome.details, outcome.trailers) for outcome in told}) == 1


@pytest.mark.parametrize("name", TOKENS)
async def test_a_token_that_does_not_hold_is_refused_everywhere(name: str, system: System) -> None:
    await refused(system, bearer(TOKENS[name](system)), grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


async def test_without_authorization_no_rpc_of_the_contract_answers(system: System) -> None:
    async with channel_to(system.address) as channel:
        for name, method in METHODS.items():
            request = GetMessageClass(method.input_type)()
            outcome = await ask(channel, name, [request] if method.client_streaming else request, ())
            assert (outcome.code, outcome.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"), name


async def test_two_authorization_entries_are_refused_though_each_would_do(system: System) -> None:
    entries = [
        *bearer(system.token("ada", TENANT, groups=["staff"], roles=WRITER["roles"])),
        *bearer(system.token("bob", TENANT, groups=["staff"], roles=WRITER["roles"])),
    ]
    await refused(system, entries, grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


async def test_a_tenant_in_the_metadata_that_differs_is_refused(system: System) -> None:
    metadata = [*bearer(system.token("ada", TENANT, groups=["staff"], roles=WRITER["roles"])), ("x-tenant-id", "acme")]
    await refused(system, metadata, grpc.StatusCode.PERMISSION_DENIED, "NOT_ALLOWED")


async def test_every_refusal_of_a_token_says_the_same(system: System) -> None:
    """Which check failed is for the log alone."""
    async with channel_to(system.address) as channel:
        request = document_pb2.ListDocumentsRequest()
        told = {await ask(channel, "ListDocuments", request, bearer(make(system))) for make in TOKENS.values()}
    assert len(told) == 1
