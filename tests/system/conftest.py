"""Fixtures of the tests of the whole system."""

from collections.abc import AsyncIterator

import pytest

from tests.system.whole import System, whole_system


@pytest.fixture(scope="session")
async def fragile(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """A system of its own for tests that stop its engines and damage its record; the last of them end it for good."""
    async with whole_system(tmp_path_factory.mktemp("fragile"), gateway={"stop_grace_s": 4.0}) as whole:
        yield whole
