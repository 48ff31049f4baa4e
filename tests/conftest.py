"""Fixtures that several folders of tests share."""

import signal
from collections.abc import AsyncIterator

import pytest

from tests.system.whole import System, whole_system


def pytest_configure() -> None:
    """A run in a shell's background, or under nohup, inherits ignored signals, and so would all that is under test."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """The whole system, started once for all tests that leave it as they found it."""
    async with whole_system(tmp_path_factory.mktemp("system")) as whole:
        yield whole
