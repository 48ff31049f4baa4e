"""One fresh world for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.protocol.harness import World, a_world, template_catalog


@pytest.fixture(scope="session")
def catalog_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template_catalog(tmp_path_factory.mktemp("catalog"))


@pytest.fixture
async def world(tmp_path: Path, catalog_template: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, catalog_template) as made:
        yield made
