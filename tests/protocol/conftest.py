"""One fresh world for each test, in memory where the system has a folder there: catalog and blobs sync a lot."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.protocol.harness import World, a_world, template_catalog

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a fresh folder of our own is made in it


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def catalog_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template_catalog(tmp_path_factory.mktemp("catalog"))


@pytest.fixture
async def world(folder: Path, catalog_template: Path) -> AsyncIterator[World]:
    async with a_world(folder, catalog_template) as made:
        yield made
