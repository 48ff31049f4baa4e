"""Fixtures that several folders of tests share."""

from collections.abc import AsyncIterator

import pytest

from tests.system.whole import System, whole_system


@pytest.fixture(scope="session")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """The whole system, started once for all tests that leave it as they found it."""
    async with whole_system(tmp_path_factory.mktemp("system")) as whole:
        yield whole
