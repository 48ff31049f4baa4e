"""Listening, health and the stop that drains (G8), on real servers."""

import asyncio
import datetime as dt
import ipaddress
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc
from muniment.errors import from_rpc_error
from muniment.v1 import evidence_pb2

from gateway.call import Call, StreamCall
from gateway.server import GatewayServer, Listener
from tests.unit.gateway.issuing import World, ec_key
from tests.unit.gateway.serving import DESCRIPTORS, METHODS, ask, bare, eventually, services, serving

EVIDENCE = "muniment.v1.EvidenceService"
SEARCH = METHODS[f"{EVIDENCE}/Search"]
ANSWER = METHODS[f"{EVIDENCE}/Answer"]
Status = health_pb2.HealthCheckResponse


@pytest.fixture
def world() -> World:
    return World()


async def check(channel: grpc.aio.Channel, service: str) -> int:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    return int(answer.status)


async def test_health_is_open_and_nothing_serves_until_it_is_said(world: World) -> None:
    async with serving({}, world) as server, grpc.aio.insecure_channel(server.address) as channel:
        names = [descriptor.full_name for descriptor in DESCRIPTORS]
        assert {await check(channel, name) for name in ["", *names]} == {Status.NOT_SERVING}
        server.set_serving(EVIDENCE, True)
        assert await check(channel, EVIDENCE) == Status.SERVING
        assert await check(channel, "") == Status.NOT_SERVING
        for name in names:
            server.set_serving(name, True)
        assert await check(channel, "") == Status.SERVING
        server.set_serving(EVIDENCE, False)
        assert await check(channel, "") == Status.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await check(channel, "other")
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND
        with pytest.raises(KeyError):
            server.set_serving("other", True)


async def test_a_watch_sees_each_change_and_ends_with_the_drain(world: World) -> None:
    seen: list[int] = []
    async with serving({}, world) as server, grpc.aio.insecure_channel(server.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)

        async def watch() -> None:
            async for answer in stub.Watch(health_pb2.HealthCheckRequest(service=EVIDENCE)):
                seen.append(answer.status)  # noqa: PERF401 - the test looks at it meanwhile

        watching = asyncio.create_task(watch())
        await eventually(lambda: seen == [Status.NOT_SERVING])
        server.set_serving(EVIDENCE, True)
        await eventually(lambda: seen[-1] == Status.SERVING)
        began = asyncio.get_running_loop().time()
        await server.stop(30)
        async with asyncio.timeout(5):
            await watching
        assert asyncio.get_running_loop().time() - began < 5
    assert seen == [Status.NOT_SERVING, Status.SERVING, Status.NOT_SERVING]


async def test_a_stop_lets_running_calls_end_and_takes_no_new_ones(world: World) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def stream(request: Any, call: StreamCall) -> None:
        await call.write(evidence_pb2.AnswerResponse(claim=evidence_pb2.Claim(text="first")))
        began.set()
        await go.wait()
        await call.write(evidence_pb2.AnswerResponse(claim=evidence_pb2.Claim(text="last")))

    async def refuses(request: Any, call: Call) -> bytes:
        await go.wait()
        raise RuntimeError("about to abort")

    async with (
        serving({"Answer": stream, "Search": refuses}, world) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        answering = asyncio.create_task(
            ask(ANSWER, bare(channel, ANSWER)(evidence_pb2.AnswerRequest(), metadata=world.bearer()))
        )
        failing = asyncio.create_task(
            ask(SEARCH, bare(channel, SEARCH)(evidence_pb2.SearchRequest(), metadata=world.bearer()))
        )
        await began.wait()
        await eventually(lambda: server.in_flight == 2)
        stopping = asyncio.create_task(server.stop(20))
        async with grpc.aio.insecure_channel(server.address) as late:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(SEARCH, bare(late, SEARCH)(evidence_pb2.SearchRequest(), metadata=world.bearer()))
            assert from_rpc_error(caught.value).reason == "SHUTTING_DOWN"
        assert not stopping.done()
        go.set()
        assert [event.claim.text for event in await answering] == ["first", "last"]
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await failing
        assert failed.value.code() == grpc.StatusCode.INTERNAL
        async with asyncio.timeout(5):
            await stopping


async def test_what_outlives_the_grace_is_told_that_the_server_stops(world: World) -> None:
    began = []

    async def hangs(request: Any, call: Call) -> bytes:
        began.append(call)
        await asyncio.Event().wait()
        return b""

    async with (
        serving({"Answer": hangs, "Search": hangs}, world) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        calls = [
            asyncio.create_task(ask(method, bare(channel, method, raw=True)(b"", metadata=world.bearer())))
            for method in (SEARCH, ANSWER)
        ]
        await eventually(lambda: len(began) == 2)
        async with asyncio.timeout(5):
            await server.stop(0.1)
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            error = from_rpc_error(caught.value)
            assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
            assert error.retry_after == 1.0


async def test_a_taken_port_is_an_error_not_a_shared_port(world: World) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = GatewayServer(services({}), world.authenticator, Listener(port=taken.getsockname()[1]))
        with pytest.raises(OSError, match="can't listen"):
            await server.start()
    async with serving({}, world) as first:
        second = GatewayServer(services({}), world.authenticator, Listener(port=first.port))
        with pytest.raises(OSError, match="can't listen"):
            await second.start()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104 - refused is what is tested
async def test_beyond_loopback_there_is_no_listener_without_tls(world: World, host: str) -> None:
    server = GatewayServer(services({}), world.authenticator, Listener(host=host))
    with pytest.raises(ValueError, match="TLS"):
        await server.start()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key = ec_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = tmp_path / "tls.pem", tmp_path / "tls.key"
    certificate_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_path, key_path


@pytest.fixture
async def tls_server(world: World, certificate: tuple[Path, Path]) -> AsyncIterator[GatewayServer]:
    listener = Listener(certificate=certificate[0], key=certificate[1])
    server = GatewayServer(services({}), world.authenticator, listener)
    await server.start()
    yield server
    await server.stop(0)


async def test_tls_is_served_where_it_is_configured(tls_server: GatewayServer, certificate: tuple[Path, Path]) -> None:
    credentials = grpc.ssl_channel_credentials(certificate[0].read_bytes())
    async with grpc.aio.secure_channel(tls_server.address, credentials) as channel:
        assert await check(channel, "") == Status.NOT_SERVING
    async with grpc.aio.insecure_channel(tls_server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await check(channel, "")
