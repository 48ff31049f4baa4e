"""Starts everything in a folder of its own, tells the story, stops everything, and looks that nothing is left."""

import os
import shutil
import socket
import tempfile
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from app.demo import cast
from app.demo.asking import Cast
from app.demo.checks import Checks, DemoFailed
from app.demo.story import Findings, Story
from app.demo.telling import Teller
from app.settings import CONFIG_FILE, Settings, load
from app.up import Running, running
from deploy import DeployError, holder


async def run_demo(teller: Teller) -> dict[str, Any]:
    """The machine summary; raises DemoFailed, or what kept it from running. The folder is kept when it fails."""
    folder = Path(tempfile.mkdtemp(prefix="muniment-demo-"))
    try:
        summary = await _run(folder, teller)
    except (DemoFailed, DeployError) as exc:
        exc.add_note(f"Everything is kept in {folder}, logs under {folder / 'logs'}.")
        raise
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)
    return summary


async def _run(folder: Path, teller: Teller) -> dict[str, Any]:
    began, checks = perf_counter(), Checks()
    (folder / CONFIG_FILE).write_text(cast.settings_toml())
    settings = load(folder / CONFIG_FILE, data_dir=folder)
    teller.chapter("Everything starts", "Policy engine, store, indexer and gateway, on free ports of this machine.")
    async with running(settings, folder / CONFIG_FILE) as up:
        times = {"start": perf_counter() - began}
        pids = ", ".join(f"{name} {pid}" for name, pid in up.state.children.items())
        teller.good(f"ready after {times['start']:.1f} s: {pids}")
        found = await up.supervisor.guard(_tell(settings, up, teller, checks, times))
        stopping = perf_counter()
    times["stop"] = perf_counter() - stopping
    _nothing_left(folder, up, checks)
    teller.chapter("Everything stops")
    teller.good(f"no process, port or lock is left, {times['stop']:.1f} s later")
    total = perf_counter() - began
    teller.note("")
    teller.good(f"{checks.passed} checks hold. {total:.0f} s in all.")
    return {
        "ok": True,
        "checks": checks.passed,
        "seconds": round(total, 2),
        "step_seconds": {name: round(seconds, 3) for name, seconds in times.items()},
        **asdict(found),
    }


async def _tell(settings: Settings, up: Running, teller: Teller, checks: Checks, times: dict[str, float]) -> Findings:
    async with Cast(settings, up.endpoints.gateway) as people:
        story = Story(people, teller, checks)
        for name, chapter in story.chapters.items():
            began = perf_counter()
            await chapter()
            times[name] = perf_counter() - began
    return story.found


def _nothing_left(folder: Path, up: Running, checks: Checks) -> None:
    for name, pid in up.state.children.items():
        checks.that(not _alive(pid), f"{name} (process {pid}) has ended")
    for name, address in up.state.addresses.items():
        checks.that(_is_free(address), f"the port of {name} ({address}) is free")
    checks.that(holder(folder) is None, "nobody holds the data directory")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _is_free(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0
