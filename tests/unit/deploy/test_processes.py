"""OPA and Weaviate as we start them: real servers that answer nobody without credentials."""

from __future__ import annotations

import asyncio
import json
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import grpc
import pytest

from deploy import ChildSpec, Supervisor, free_ports
from deploy.engines import EngineCredentials, WeaviatePorts, ensure, opa_child, weaviate_child

CREDENTIALS = EngineCredentials.generate()
RULES = 'package muniment.authz\n\nrevision := "r1"\n\ninclude if input.fragment.owner == input.principal.subject\n'


@dataclass(frozen=True)
class Reply:
    status: int
    text: str


async def call(method: str, url: str, headers: dict[str, str] | None = None, body: object = None) -> Reply:
    def send() -> Reply:
        data = None if body is None else json.dumps(body).encode()
        content = {} if body is None else {"Content-Type": "application/json"}
        request = Request(url, data, {**content, **(headers or {})}, method=method)  # noqa: S310 (loopback)
        try:
            with urlopen(request, timeout=10) as answer:  # noqa: S310 (loopback)
                return Reply(answer.status, answer.read().decode())
        except HTTPError as refusal:
            with refusal:
                return Reply(refusal.code, refusal.read().decode())

    return await asyncio.to_thread(send)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True)
class Opa:
    spec: ChildSpec
    run_directory: Path
    address: str

    async def call(self, method: str, path: str, token: str | None, body: object = None) -> Reply:
        return await call(method, self.address + path, bearer(token) if token is not None else None, body)


@pytest.fixture(scope="module")
async def opa(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Opa]:
    directory = tmp_path_factory.mktemp("opa")
    rules = directory / "bundle" / "muniment" / "authz"
    rules.mkdir(parents=True)
    (rules / "authz.rego").write_text(RULES)
    (rules / "authz_test.rego").write_text("this is no Rego and must not be loaded")
    (directory / "bundle" / ".manifest").write_text(json.dumps({"roots": ["muniment/authz"], "revision": "r1"}))
    [port] = free_ports(1)
    run, log = directory / "run", directory / "log" / "opa.log"
    spec = opa_child(ensure(["opa"])["opa"], port, [directory / "bundle"], CREDENTIALS, run, log, memory_limit="256MiB")
    async with Supervisor(handle_signals=False) as supervisor:
        await supervisor.start(spec)
        yield Opa(spec, run, f"http://127.0.0.1:{port}")


async def test_opa_tells_anybody_its_health_and_nothing_else_of_itself(opa: Opa) -> None:
    assert (await opa.call("GET", "/health", None)).status == 200
    assert (await opa.call("GET", "/health?bundle=true", None)).status == 200
    for method, path in (("POST", "/health"), ("GET", "/health/live"), ("GET", "/metrics"), ("GET", "/")):
        assert (await opa.call(method, path, None)).status == 401, path


@pytest.mark.parametrize("token", [None, "", "wrong", "undefined"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/data"),
        ("GET", "/v1/data/muniment/authz/revision"),
        ("POST", "/v1/data/muniment/authz"),
        ("POST", "/v0/data/muniment/authz"),
        ("POST", "/v1/compile"),
        ("PUT", "/v1/data/muniment/relationships"),
        ("GET", "/v1/policies"),
        ("PUT", "/v1/policies/mine"),
        ("GET", "/v1/query?q=data"),
        ("GET", "/v1/config"),
        ("GET", "/v1/status"),
    ],
)
async def test_opa_answers_nobody_without_the_token(opa: Opa, method: str, path: str, token: str | None) -> None:
    body: object = None if method == "GET" else {}
    assert (await opa.call(method, path, token, body)).status == 401


async def test_opa_decides_and_compiles_for_the_bearer(opa: Opa) -> None:
    token = CREDENTIALS.opa_token
    revision = await opa.call("GET", "/v1/data/muniment/authz/revision", token)
    assert json.loads(revision.text)["result"] == "r1"
    question = {"input": {"principal": {"subject": "ada"}, "fragment": {"owner": "ada"}}}
    decided = await opa.call("POST", "/v1/data/muniment/authz", token, question)
    assert json.loads(decided.text)["result"] == {"include": True, "revision": "r1"}
    compiled = await opa.call(
        "POST",
        "/v1/compile",
        token,
        {
            "query": "data.muniment.authz.include == true",
            "input": {"principal": {"subject": "ada"}},
            "unknowns": ["input.fragment"],
        },
    )
    assert compiled.status == 200
    assert len(json.loads(compiled.text)["result"]["queries"]) == 1


async def test_opa_takes_relationships_from_the_bearer(opa: Opa) -> None:
    token = CREDENTIALS.opa_token
    path = "/v1/data/muniment/relationships"
    assert (await opa.call("PUT", path, token, {"revision": 1})).status == 204
    assert (await opa.call("PUT", f"{path}/acme", token, {"groups": ["eng"]})).status == 204
    stored = await opa.call("GET", path, token)
    assert json.loads(stored.text)["result"] == {"revision": 1, "acme": {"groups": ["eng"]}}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/data"),
        ("GET", "/v1/data/system/authz"),
        ("POST", "/v1/data/system/authz"),
        ("PUT", "/v1/data"),
        ("PUT", "/v1/data/muniment"),
        ("PUT", "/v1/data/muniment/authz"),
        ("PUT", "/v1/data/system/authz"),
        ("PATCH", "/v1/data/muniment/relationships"),
        ("DELETE", "/v1/data/muniment/relationships"),
        ("POST", "/v0/data/muniment/authz"),
        ("GET", "/v1/policies"),
        ("PUT", "/v1/policies/mine"),
        ("DELETE", "/v1/policies/authz"),
        ("POST", "/v1/query"),
        ("GET", "/v1/config"),
        ("GET", "/metrics"),
        ("POST", "/v1/compile/muniment/authz/include"),
    ],
)
async def test_opa_lets_even_the_bearer_do_nothing_else(opa: Opa, method: str, path: str) -> None:
    body: object = None if method == "GET" else {}
    assert (await opa.call(method, path, CREDENTIALS.opa_token, body)).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/v1/data/muniment/../system/authz",
        "/v1/data/muniment/%2e%2e/system/authz",
        "/v1/data/muniment%2f..%2fsystem%2fauthz",
        "/v1/data/muniment//../system/authz",
    ],
)
async def test_a_crooked_path_leads_the_bearer_nowhere(opa: Opa, path: str) -> None:
    reply = await opa.call("GET", path, CREDENTIALS.opa_token)
    assert "token_sha256" not in reply.text


async def test_the_token_is_in_no_file_argument_or_log_of_opa(opa: Opa) -> None:
    await opa.call("POST", "/v1/data/muniment/authz", CREDENTIALS.opa_token, {"input": {"secret": "the-content"}})
    files = [path for path in opa.run_directory.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {".manifest", "authz.rego", "data.json"}
    texts = [path.read_text() for path in (*files, opa.spec.log_path)] + list(opa.spec.argv)
    assert not any(CREDENTIALS.opa_token in text or "the-content" in text for text in texts)


@dataclass(frozen=True)
class Weaviate:
    ports: WeaviatePorts

    async def rest(self, method: str, path: str, key: str | None, body: object = None) -> Reply:
        url = f"http://127.0.0.1:{self.ports.http}{path}"
        return await call(method, url, bearer(key) if key is not None else None, body)

    async def data_port(self, path: str, user: str | None = None, password: str = "") -> Reply:
        headers = {}
        if user is not None:
            headers["Authorization"] = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
        return await call("GET", f"http://127.0.0.1:{self.ports.data}{path}", headers)


def weaviate_spec(directory: Path, ports: WeaviatePorts) -> ChildSpec:
    log = directory / "log" / "weaviate.log"
    return weaviate_child(ensure(["weaviate"])["weaviate"], ports, directory / "weaviate", CREDENTIALS, log)


@pytest.fixture(scope="module")
async def weaviate(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Weaviate]:
    ports = WeaviatePorts.pick()
    async with Supervisor(handle_signals=False) as supervisor:
        await supervisor.start(weaviate_spec(tmp_path_factory.mktemp("weaviate"), ports))
        yield Weaviate(ports)


@pytest.mark.parametrize("key", [None, "", "wrong", "muniment"])
async def test_weaviate_rest_answers_nobody_without_the_key(weaviate: Weaviate, key: str | None) -> None:
    for path in ("/v1/schema", "/v1/objects", "/v1/meta", "/v1/nodes"):
        assert (await weaviate.rest("GET", path, key)).status == 401, path
    assert (await weaviate.rest("GET", "/v1/schema", CREDENTIALS.weaviate_api_key)).status == 200


@pytest.mark.parametrize("key", [None, "wrong"])
async def test_weaviate_grpc_answers_nobody_without_the_key(weaviate: Weaviate, key: str | None) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{weaviate.ports.grpc}") as channel:
        search = channel.unary_unary("/weaviate.v1.Weaviate/Search", bytes, bytes)
        metadata = [] if key is None else [("authorization", f"Bearer {key}")]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await search(b"", metadata=metadata, timeout=10)
        assert "unauthorized" in (refused.value.details() or "")  # with status UNKNOWN, in 1.38
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await search(b"", metadata=[("authorization", f"Bearer {CREDENTIALS.weaviate_api_key}")], timeout=10)
        assert "unauthorized" not in (unknown.value.details() or "")


async def test_weaviate_data_port_answers_nobody_without_its_own_credentials(weaviate: Weaviate) -> None:
    path = "/nodes/status"
    assert (await weaviate.data_port(path)).status == 401
    assert (await weaviate.data_port(path, CREDENTIALS.cluster_user, "wrong")).status == 401
    key = bearer(CREDENTIALS.weaviate_api_key)
    assert (await call("GET", f"http://127.0.0.1:{weaviate.ports.data}{path}", key)).status == 401
    assert (await weaviate.data_port(path, CREDENTIALS.cluster_user, CREDENTIALS.cluster_password)).status == 200


def test_weaviate_ports_are_on_loopback_alone_where_it_lets_us(weaviate: Weaviate) -> None:
    """127.0.0.2 is this host too, but only what listens on all interfaces answers there."""
    ports = weaviate.ports
    for port in (ports.http, ports.gossip, ports.raft, ports.raft_rpc):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), timeout=5)


async def test_weaviate_keeps_its_data_when_it_comes_back_on_other_ports(tmp_path: Path) -> None:
    key = CREDENTIALS.weaviate_api_key
    collection = {
        "class": "Kept",
        "multiTenancyConfig": {"enabled": True},
        "properties": [{"name": "text", "dataType": ["text"]}],
    }
    thing = {
        "class": "Kept",
        "tenant": "acme",
        "id": "6f0c1c1e-5f0a-4a35-9a53-0a0a0a0a0a0a",
        "properties": {"text": "still here"},
    }
    before, after = Weaviate(WeaviatePorts.pick()), Weaviate(WeaviatePorts.pick())
    async with Supervisor(handle_signals=False) as supervisor:
        await supervisor.start(weaviate_spec(tmp_path, before.ports))
        assert (await before.rest("POST", "/v1/schema", key, collection)).status == 200
        assert (await before.rest("POST", "/v1/schema/Kept/tenants", key, [{"name": "acme"}])).status == 200
        assert (await before.rest("POST", "/v1/objects", key, thing)).status == 200
    async with Supervisor(handle_signals=False) as supervisor:
        await supervisor.start(weaviate_spec(tmp_path, after.ports))
        kept = await after.rest("GET", f"/v1/objects/Kept/{thing['id']}?tenant=acme", key)
        assert json.loads(kept.text)["properties"] == {"text": "still here"}
