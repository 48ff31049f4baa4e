"""Whatever may close a document is answered only when nothing cleared before it can still leave (I5)."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from muniment import Access, AsyncClient

from corpus.acknowledge import ACKNOWLEDGE_AFTER_S
from tests.system.whole import System

Command = Callable[[AsyncClient], Awaitable[Any]]


async def _put(admin: AsyncClient) -> object:
    return await admin.put_document("acks", "page", b"# Page\n\nTwo.\n", filename="page.md", wait=False)


async def _abandon(admin: AsyncClient) -> object:
    build = await admin.begin_build("acks")
    return await admin.abandon_build(build.build_id)


@pytest.fixture(scope="module")
async def stored(system: System) -> System:
    async with system.admin("story") as admin:
        await admin.create_source("acks", access_template=Access(public=True))
        await admin.put_document("acks", "page", b"# Page\n\nOne.\n", filename="page.md")
    return system


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(_put, id="PutDocument"),
        pytest.param(lambda admin: admin.set_access("acks", "page", Access(owner="nobody")), id="SetAccess"),
        pytest.param(_abandon, id="AbandonBuild"),
        pytest.param(lambda admin: admin.delete_document("acks", "page"), id="DeleteDocument"),
    ],
)
async def test_an_answer_comes_later_than_a_cleared_message_may_leave(stored: System, command: Command) -> None:
    async with stored.admin("story") as admin:
        began = time.monotonic()
        await command(admin)
        assert time.monotonic() - began >= ACKNOWLEDGE_AFTER_S
