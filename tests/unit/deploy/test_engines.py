"""Engines are found where they may be, built where they are not, and never half."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from deploy.engines import EngineCredentials, ensure, load_pins, locate, missing_reasons
from deploy.engines.buildinfo import module_versions
from deploy.engines.locate import cache_root, version_fault
from deploy.errors import (
    BuildFailedError,
    CredentialsUnusableError,
    EngineUnusableError,
    GoMissingError,
    UnknownEngineError,
)

Eventually = Callable[[Callable[[], bool]], Awaitable[None]]

ROOT = Path(__file__).parents[3]
SYSTEM_PATH = "/usr/bin:/bin"


@pytest.fixture(scope="session")
def opa() -> Path:
    return ensure(["opa"])["opa"]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty engine cache, and a directory that is first on a PATH with neither Go nor engines."""
    directory = tmp_path / "tools"
    directory.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{directory}:{SYSTEM_PATH}")
    for name in load_pins():
        monkeypatch.delenv(f"MUNIMENT_{name.upper()}_BIN", raising=False)
    return directory


def program(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def stand_in_go(tools: Path, install: str, version: str = "go1.99.1", toolchain: str = "local") -> None:
    """A ``go`` that tells its version and runs ``install`` instead of building."""
    program(tools / "go", f'if [ "$1" = env ]; then printf "{version}\\n{toolchain}\\n"; exit 0; fi\n{install}')


def left_in_cache() -> set[str]:
    return {path.name for path in cache_root().iterdir() if path.is_dir()}


def test_the_pins_name_every_engine_and_how_it_is_built() -> None:
    versions = {name: pin.version for name, pin in load_pins().items()}
    assert versions == {"opa": "1.22.3", "weaviate": "1.38.11", "regal": "0.39.0"}


def test_an_unknown_engine_is_refused_with_the_known_names() -> None:
    with pytest.raises(UnknownEngineError, match="opa, weaviate, regal"):
        locate("redis")


def test_without_go_the_error_says_the_three_things_that_help(tools: Path) -> None:
    with pytest.raises(GoMissingError) as caught:
        ensure(["weaviate"])
    text = str(caught.value)
    assert "install Go 1.26 or newer" in text
    assert "put weaviate-server of version 1.38.11 on PATH, or name it in MUNIMENT_WEAVIATE_BIN" in text
    assert "set its address" in text
    assert "no go on PATH" in text
    assert locate("weaviate") is None


@pytest.mark.parametrize(("version", "toolchain"), [("go1.20", "auto"), ("go1.25.3", "local"), ("", "")])
def test_a_go_that_is_too_old_and_may_not_fetch_a_newer_one_counts_as_absent(
    tools: Path, version: str, toolchain: str
) -> None:
    stand_in_go(tools, "exit 1", version, toolchain)
    with pytest.raises(GoMissingError, match=version or "unknown version"):
        ensure(["opa"])


def test_an_older_go_that_fetches_the_toolchain_it_needs_may_build(tools: Path, opa: Path) -> None:
    stand_in_go(tools, f'cp "{opa}" "$GOBIN/opa"', "go1.21.0", "auto")
    assert version_fault(load_pins()["opa"], ensure(["opa"])["opa"]) is None


def test_a_pinned_binary_on_path_is_taken_and_one_of_another_version_passed_over(tools: Path, opa: Path) -> None:
    shutil.copy(opa, tools / "opa")
    assert locate("opa") == tools / "opa"
    program(tools / "opa", "echo Version: 0.68.0")
    assert locate("opa") is None
    assert any("version 0.68.0, wanted is 1.22.3" in reason for reason in missing_reasons("opa"))


@pytest.mark.parametrize("body", ["echo Version: 0.68.0", "exit 1", "echo hello"])
def test_a_binary_named_by_the_operator_is_obeyed_or_refused(
    tools: Path, opa: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setenv("MUNIMENT_OPA_BIN", str(opa))
    assert locate("opa") == opa
    monkeypatch.setenv("MUNIMENT_OPA_BIN", str(program(tools / "mine", body)))
    with pytest.raises(EngineUnusableError, match="MUNIMENT_OPA_BIN"):
        locate("opa")
    monkeypatch.setenv("MUNIMENT_OPA_BIN", str(tools / "absent"))
    with pytest.raises(EngineUnusableError, match="not an executable file"):
        locate("opa")


def test_a_real_build_ends_in_the_cache_and_is_found_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setenv("GOCACHE", compiled)  # else it would move along with XDG_CACHE_HOME, and all be compiled anew
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stages: list[str] = []
    built = ensure(["opa"], lambda engine, stage, elapsed_s: stages.append(stage))["opa"]
    assert built == tmp_path / "muniment" / "engines" / "opa-1.22.3" / "opa"
    assert stages[-2:] == ["verifying", "built"]
    assert version_fault(load_pins()["opa"], built) is None
    assert left_in_cache() == {"opa-1.22.3"}
    stages.clear()
    ensure(["opa"], lambda engine, stage, elapsed_s: stages.append(stage))
    assert stages == ["found"]


def test_versions_are_read_from_a_binary_that_cannot_tell_them() -> None:
    assert module_versions(ensure(["weaviate"])["weaviate"])["github.com/weaviate/weaviate"] == "1.38.11"


def test_a_file_that_is_no_go_binary_has_no_versions() -> None:
    assert module_versions(Path(sys.executable)) == {}


@pytest.mark.parametrize(
    "content", [b"", b"\xff Go buildinf:\x08\x02" + bytes(17), b"\xff Go buildinf:\x08\x02" + b"\xff" * 20]
)
def test_an_empty_or_cut_binary_has_no_versions(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cut").write_bytes(content)
    assert module_versions(tmp_path / "cut") == {}


def test_a_failed_build_leaves_nothing_and_names_no_server(tools: Path) -> None:
    said = (
        'module lookup: Get "https://proxy.example.net/opa.zip": dial tcp: lookup proxy.example.net on 10.0.0.2:53: no'
    )
    stand_in_go(tools, f"echo '{said}' >&2; exit 1")
    with pytest.raises(BuildFailedError, match="code 1") as caught:
        ensure(["opa"])
    assert "proxy.example.net" not in str(caught.value)
    assert "module lookup" in str(caught.value)
    assert said in caught.value.log_path.read_text()
    assert left_in_cache() == set()


def test_a_product_of_another_version_is_not_installed(tools: Path) -> None:
    stand_in_go(tools, 'printf \'#!/bin/sh\\necho Version: 9.9.9\\n\' > "$GOBIN/opa"; chmod +x "$GOBIN/opa"')
    with pytest.raises(BuildFailedError, match=r"version 9\.9\.9, wanted is 1\.22\.3"):
        ensure(["opa"])
    assert left_in_cache() == set()


def test_leftovers_of_a_killed_builder_and_a_damaged_entry_are_replaced(tools: Path, opa: Path) -> None:
    stand_in_go(tools, f'cp "{opa}" "$GOBIN/opa"')
    (cache_root() / ".opa-1.22.3-build-dead" / "module").mkdir(parents=True)
    (cache_root() / "opa-1.22.3").mkdir()
    (cache_root() / "opa-1.22.3" / "opa").write_text("half")
    ensure(["opa"])
    assert left_in_cache() == {"opa-1.22.3"}


BUILDING = "from deploy.engines import ensure; print(ensure(['opa'], lambda e, s, t: print(s, flush=True))['opa'])"


def building() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILDING],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_builders_build_once(tools: Path, opa: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    stand_in_go(tools, f'echo run >> "{runs}"; sleep 0.3; cp "{opa}" "$GOBIN/opa"')
    with building() as first, building() as second:
        said = [process.communicate(timeout=60)[0].split() for process in (first, second)]
    assert runs.read_text() == "run\n"
    assert {words[-1] for words in said} == {str(cache_root() / "opa-1.22.3" / "opa")}


@pytest.mark.parametrize("body", ["sleep 600 & echo $! > {pid}; wait", "trap '' TERM; echo $$ > {pid}; sleep 600; :"])
async def test_ctrl_c_ends_go_with_all_it_started_and_leaves_nothing(
    tools: Path, tmp_path: Path, eventually: Eventually, alive: Callable[[int], bool], body: str
) -> None:
    pid = tmp_path / "pid"
    stand_in_go(tools, body.format(pid=pid))
    with building() as process:
        await eventually(lambda: pid.exists() and pid.read_text() != "")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert left_in_cache() == set()
    await eventually(lambda: not alive(int(pid.read_text())))


async def test_killing_the_builder_ends_go(
    tools: Path, tmp_path: Path, eventually: Eventually, alive: Callable[[int], bool]
) -> None:
    pid = tmp_path / "pid"
    stand_in_go(tools, f"echo $$ > {pid}; exec sleep 600")
    with building() as process:
        await eventually(lambda: pid.exists() and pid.read_text() != "")
        process.kill()
        process.communicate()
    await eventually(lambda: not alive(int(pid.read_text())))


def test_credentials_are_random_kept_across_restarts_and_private(tmp_path: Path) -> None:
    first = EngineCredentials.load_or_generate(tmp_path)
    assert EngineCredentials.load_or_generate(tmp_path) == first
    assert EngineCredentials.generate() != first
    assert stat.S_IMODE((tmp_path / "run" / "credentials.json").stat().st_mode) == 0o600
    assert first.opa_token not in repr(first)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"opa_token": ""}'])
def test_damaged_credentials_are_refused_with_advice(tmp_path: Path, content: str) -> None:
    EngineCredentials.load_or_generate(tmp_path)
    path = tmp_path / "run" / "credentials.json"
    path.write_text(content)
    with pytest.raises(CredentialsUnusableError, match="delete the file"):
        EngineCredentials.load(tmp_path)


def test_credentials_that_others_can_read_are_refused(tmp_path: Path) -> None:
    EngineCredentials.load_or_generate(tmp_path)
    (tmp_path / "run" / "credentials.json").chmod(0o640)
    with pytest.raises(CredentialsUnusableError, match="0640"):
        EngineCredentials.load(tmp_path)


def test_an_empty_credential_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="cluster_password"):
        EngineCredentials("a", "b", "c", "")


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == tmp_path / ".cache" / "muniment" / "engines"
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "muniment" / "engines"
