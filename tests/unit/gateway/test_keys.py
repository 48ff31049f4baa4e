"""Rotation and withdrawal within the stated bounds (J6); unknown `kid`s never wait and never flood (J5)."""

import asyncio
import os
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from gateway.addresses import checked_key_url
from gateway.keys import FileKeys, KeyBounds, KeySetFault, UrlKeys, fetch_from, parse_key_set
from tests.unit.gateway.issuing import Clock, ed_key, jwk, key_set, rsa_key

BOUNDS = KeyBounds(refresh_s=60, window_s=10, stale_s=300)


class Publisher:
    """What an issuer publishes; counts how often it was asked."""

    def __init__(self) -> None:
        self.keys = {"k1": ed_key()}
        self.asked = 0
        self.down = False

    async def __call__(self) -> bytes:
        self.asked += 1
        if self.down:
            raise aiohttp.ClientConnectionError
        return key_set(*(jwk(key, kid) for kid, key in self.keys.items()))


async def due(keys: UrlKeys) -> bool:
    """One step of `run`: refresh when due."""
    if keys.due_in_s() > 0:
        return False
    await keys.refresh()
    return True


async def test_j6_a_fresh_key_is_accepted_within_the_window() -> None:
    clock, publisher = Clock(), Publisher()
    keys = UrlKeys(publisher, BOUNDS, clock)
    await keys.refresh()
    publisher.keys["k2"] = ed_key()
    clock.now += 1
    assert keys.find("k2") is None
    assert not await due(keys)
    clock.now += BOUNDS.window_s - 1
    assert await due(keys)
    assert keys.find("k2") is not None


async def test_j6_a_withdrawn_key_is_refused_after_the_refresh() -> None:
    clock, publisher = Clock(), Publisher()
    keys = UrlKeys(publisher, BOUNDS, clock)
    await keys.refresh()
    publisher.keys = {"k2": ed_key()}
    clock.now += BOUNDS.refresh_s
    assert await due(keys)
    assert keys.find("k1") is None
    assert keys.find("k2") is not None


async def test_j6_when_the_issuer_is_away_its_keys_end_with_the_stated_bound() -> None:
    clock, publisher = Clock(), Publisher()
    keys = UrlKeys(publisher, BOUNDS, clock)
    await keys.refresh()
    publisher.down = True
    for _ in range(5):
        clock.now += BOUNDS.refresh_s
        await due(keys)
        assert keys.find("k1") is not None
    clock.now += 1
    assert keys.find("k1") is None
    publisher.down = False
    clock.now += BOUNDS.window_s
    assert await due(keys)
    assert keys.find("k1") is not None


async def test_j5_many_unknown_kids_cost_one_fetch_a_window_and_no_kept_key() -> None:
    clock, publisher = Clock(), Publisher()
    keys = UrlKeys(publisher, BOUNDS, clock)
    await keys.refresh()
    good = keys.find("k1")
    for number in range(200):
        clock.now += 0.1  # 20 s in all: two windows
        assert keys.find(f"random-{number}") is None
        await due(keys)
        assert keys.find("k1") is good
    assert publisher.asked <= 1 + 2


async def test_j5_an_endpoint_that_never_answers_delays_nobody() -> None:
    """A real server that accepts and stays silent: `find` answers at once, and one request is in flight, not more."""
    requests = []
    arrived, release = asyncio.Event(), asyncio.Event()

    async def silent(request: web.Request) -> web.Response:
        requests.append(request)
        arrived.set()
        await release.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/jwks", silent)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as session:
        keys = UrlKeys(fetch_from(session, f"http://127.0.0.1:{port}/jwks"), BOUNDS)
        task = asyncio.create_task(keys.run())
        async with asyncio.timeout(5):
            await arrived.wait()
        began = asyncio.get_running_loop().time()
        for number in range(200):
            assert keys.find(f"random-{number}") is None
        assert asyncio.get_running_loop().time() - began < 0.5
        assert len(requests) == 1
        release.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await runner.cleanup()


async def test_a_real_fetch_is_bounded_and_follows_no_redirect() -> None:
    keys = {"k1": ed_key()}

    async def good(request: web.Request) -> web.Response:
        return web.Response(body=key_set(jwk(keys["k1"], "k1")))

    async def away(request: web.Request) -> web.Response:
        raise web.HTTPFound("/good")

    async def huge(request: web.Request) -> web.Response:
        return web.Response(body=b" " * 300_000)

    app = web.Application()
    for path, handler in (("/good", good), ("/away", away), ("/huge", huge)):
        app.router.add_get(path, handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession() as session:
        assert parse_key_set(await fetch_from(session, f"{base}/good")())
        for path in ("/away", "/huge", "/missing"):
            with pytest.raises(KeySetFault):
                await fetch_from(session, f"{base}{path}")()
    await runner.cleanup()


def test_a_file_is_read_again_when_it_changed_and_kept_while_it_is_unreadable(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "jwks.json"
    first, second = ed_key(), ed_key()
    path.write_bytes(key_set(jwk(first, "k1")))
    keys = FileKeys(path, KeyBounds(window_s=1, stale_s=300), clock)
    found = keys.find("k1")
    assert found is not None

    clock.now += 1
    assert keys.find("k1") is found  # unchanged: the same object, so memos of tokens live on

    path.write_bytes(key_set(jwk(second, "k2")))
    os.utime(path, ns=(1, 1))
    clock.now += 0.5
    assert keys.find("k1") is found  # within the window
    clock.now += 0.5
    assert keys.find("k1") is None
    assert keys.find("k2") is not None

    path.write_bytes(b"{")
    clock.now += 300
    assert keys.find("k2") is not None
    clock.now += 1
    assert keys.find("k2") is None


def test_a_missing_file_finds_nothing(tmp_path: Path) -> None:
    assert FileKeys(tmp_path / "none.json").find("k1") is None


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [7]}', b'{"keys": [{"kty": "EC", "kid": "a", "crv": "P-256"}]}'],
)
def test_what_is_no_key_set_is_a_fault(raw: bytes) -> None:
    with pytest.raises(KeySetFault):
        parse_key_set(raw)


def test_keys_that_can_not_be_told_apart_are_a_fault() -> None:
    entry = jwk(ed_key(), "k1")
    with pytest.raises(KeySetFault, match="share"):
        parse_key_set(key_set(entry, jwk(ed_key(), "k1")))
    with pytest.raises(KeySetFault, match="kid"):
        parse_key_set(key_set({name: value for name, value in entry.items() if name != "kid"}))


def test_keys_for_other_uses_are_passed_over() -> None:
    assert parse_key_set(key_set(jwk(rsa_key(), "e", use="enc"), jwk(rsa_key(), "r", alg="RSA-OAEP"))) == {}
    curve = {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA", "kid": "unknown-curve"}
    assert set(parse_key_set(key_set(curve, jwk(ed_key(), "k1")))) == {"k1"}


@pytest.mark.parametrize(
    "url", ["http://idp.example/jwks", "file:///etc/passwd", "https://", "jwks", "ftp://localhost/"]
)
def test_keys_are_not_fetched_from_where_they_could_be_changed(url: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        checked_key_url(url)


@pytest.mark.parametrize("url", ["https://idp.example/jwks", "http://127.0.0.1:8080/jwks", "http://[::1]/jwks"])
def test_safe_key_urls(url: str) -> None:
    assert checked_key_url(url) == url


@pytest.mark.parametrize(
    "raw",
    [
        b'{"keys": ' + b"[" * 100_000,
        b'{"keys": [{"kty": ["RSA"], "kid": "k"}]}',
        b'{"keys": [{"kty": "OKP", "crv": ["Ed25519"], "kid": "k"}]}',
        b'{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": 7}]}',
        b'{"keys": [{"kty": "RSA", "kid": "k", "n": ["AQAB"], "e": {}}]}',
    ],
)
async def test_a_key_set_of_any_shape_does_not_end_the_fetching(raw: bytes) -> None:
    with pytest.raises(KeySetFault):
        parse_key_set(raw)

    async def fetch() -> bytes:
        return raw

    keys = UrlKeys(fetch, BOUNDS, Clock())
    await keys.refresh()
    assert keys.find("k") is None
