"""Fixtures of the tests of the whole system."""

from collections.abc import AsyncIterator

import pytest

from tests.system.whole import System, whole_system


@pytest.fixture(scope="session")
async def fragile(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """A system of its own for tests that hold up its engines and damage its record, and mend both afterwards."""
    async with whole_system(tmp_path_factory.mktemp("fragile")) as whole:
        yield whole
