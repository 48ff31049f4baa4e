"""Fixtures that several folders of tests share."""

import signal
from collections.abc import AsyncIterator

import pytest

from tests.system.whole import System, whole_system


def pytest_configure() -> None:
    """A run in a shell's background inherits an ignored SIGINT, and so would every process under test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """The whole system, started once for all tests that leave it as they found it."""
    async with whole_system(tmp_path_factory.mktemp("system")) as whole:
        yield whole
