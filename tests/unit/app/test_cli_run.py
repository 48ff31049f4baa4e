"""The command line as a process: what it prints where, and its exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jwt
import pytest

from app.issuer import KEY_SET_FILE
from deploy.engines import load_pins

TOML = """
[[tenants]]
name = "acme"

[[tenants]]
name = "apex"

[development.users.alice]
tenant = "acme"
groups = ["staff", "eng"]
roles = ["reader", "writer"]
attributes = { clearance = 3, region = "eu", contractor = false }
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "muniment.toml").write_text(TOML)
    return folder


def _run(*arguments: str | Path, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """In a folder without settings, and without the surroundings' MUNIMENT_ variables but those of engines."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("MUNIMENT_") or name.endswith("_BIN")
    }
    command = [sys.executable, "-P", "-m", "app.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd)


def _claims(token: str) -> dict[str, object]:
    decoded: dict[str, object] = jwt.decode(token, options={"verify_signature": False})
    return decoded


def test_engines_run_is_the_pinned_engine() -> None:
    done = _run("engines", "run", "opa", "--", "version")

    assert done.returncode == 0
    assert f"Version: {load_pins()['opa'].version}" in done.stdout


def test_engines_run_gives_the_engines_own_exit_code(tmp_path: Path) -> None:
    (tmp_path / "bad.rego").write_text("package x\nnot rego")
    done = _run("engines", "run", "opa", "--", "check", "--strict", tmp_path)

    assert done.returncode == 1
    assert "rego_parse_error" in done.stderr


def test_unknown_engines_are_refused_with_the_known_ones() -> None:
    done = _run("engines", "run", "redis")

    assert done.returncode == 1
    assert "opa, weaviate, regal" in done.stderr
    assert "Traceback" not in done.stderr


def test_engines_list_names_every_pin() -> None:
    done = _run("engines", "list", "--json")

    assert {engine["engine"]: engine["version"] for engine in json.loads(done.stdout)} == {
        name: pin.version for name, pin in load_pins().items()
    }


def test_token_of_a_development_user_has_their_claims(data_dir: Path) -> None:
    done = _run("token", "alice", "--data-dir", data_dir)
    claims = _claims(done.stdout.strip())

    assert done.stderr == ""
    assert (claims["sub"], claims["tenant"], claims["roles"]) == ("alice", "acme", ["reader", "writer"])
    assert claims["groups"] == ["eng", "staff"]
    assert claims["attributes"] == {"clearance": 3, "region": "eu", "contractor": False}
    assert (data_dir / "issuer" / KEY_SET_FILE).exists()


def test_token_options_replace_the_users_claims(data_dir: Path) -> None:
    arguments = ("--tenant", "apex", "--group", "ops", "--role", "publisher", "--attribute", "clearance=5")
    claims = _claims(_run("token", "alice", "--data-dir", data_dir, *arguments, "--lifetime", "90s").stdout.strip())

    assert (claims["tenant"], claims["groups"], claims["roles"]) == ("apex", ["ops"], ["publisher"])
    assert claims["attributes"] == {"clearance": 5}
    assert int(str(claims["exp"])) - int(str(claims["iat"])) == 90


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bob",), "--tenant which: acme, apex"),
        (("bob", "--tenant", "other"), "--tenant which: acme, apex"),
        (("alice", "--lifetime", "2d"), "duration"),
        (("alice", "--lifetime", "48h"), "at most 3600 s"),
        (("alice", "--attribute", "clearance"), "NAME=VALUE"),
        (("alice", "--group", " padded"), "groups"),
        (("alice", "--role", "king"), "king"),
    ],
)
def test_tokens_that_would_be_refused_are_not_minted(data_dir: Path, arguments: tuple[str, ...], says: str) -> None:
    done = _run("token", *arguments, "--data-dir", data_dir)

    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_who_asks_must_be_said(data_dir: Path) -> None:
    done = _run("search", "x", "--data-dir", data_dir, "--address", "127.0.0.1:1")

    assert done.returncode == 2
    assert "--as USER (known: alice)" in done.stderr


def test_an_unknown_user_is_answered_with_how_to_add_one(data_dir: Path) -> None:
    done = _run("search", "x", "--data-dir", data_dir, "--address", "127.0.0.1:1", "--as", "bob")

    assert done.returncode == 1
    assert "[development.users.bob]" in done.stderr


def test_built_in_admins_can_be_kept_when_the_first_user_is_added(tmp_path: Path) -> None:
    """Users in the settings replace them, so what is said to add must hold them, too."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    config = data_dir / "muniment.toml"
    config.write_text('[[tenants]]\nname = "acme"\n\n[[tenants]]\nname = "apex"\n\n')
    told = _run("search", "x", "--data-dir", data_dir, "--address", "127.0.0.1:1", "--as", "bob").stderr
    config.write_text(config.read_text() + "\n".join(line[2:] for line in told.splitlines() if line.startswith("  ")))

    assert str(config) in told
    assert _claims(_run("token", "bob", "--data-dir", data_dir).stdout.strip())["groups"] == ["staff"]
    admin = _claims(_run("token", "admin@apex", "--data-dir", data_dir).stdout.strip())
    assert (admin["tenant"], admin["roles"]) == ("apex", ["evaluator", "publisher", "reader", "writer"])


def test_a_data_directory_that_cannot_be_made_is_told_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = _run("up", "--data-dir", tmp_path / "file" / "data", "--tenant", "acme", cwd=tmp_path)

    assert done.returncode == 1
    assert "choose another data directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_settings_there_is_an_admin(tmp_path: Path) -> None:
    done = _run("token", "admin", "--data-dir", tmp_path / "data", cwd=tmp_path)
    claims = _claims(done.stdout.strip())

    assert claims["tenant"] == "default"
    assert {"reader", "writer", "publisher"} <= set(claims["roles"])  # type: ignore[call-overload]


def test_a_gateway_that_does_not_run_is_told_with_what_to_do(data_dir: Path) -> None:
    done = _run("search", "x", "--data-dir", data_dir, "--as", "alice")

    assert done.returncode == 1
    assert "muniment up" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_gateway_that_does_not_answer_is_told_with_what_to_do(data_dir: Path) -> None:
    done = _run("search", "x", "--data-dir", data_dir, "--as", "alice", "--address", "127.0.0.1:1")

    assert done.returncode == 1
    assert "does not answer" in done.stderr
    assert "Traceback" not in done.stderr


def test_faults_of_the_settings_are_told_together(data_dir: Path) -> None:
    (data_dir / "muniment.toml").write_text('gateway = { prot = 1 }\n[development.users.eve]\ntenant = "nowhere"\n')
    done = _run("token", "eve", "--data-dir", data_dir)

    assert done.returncode == 1
    assert "gateway.prot: is not a setting" in done.stderr
    assert "Traceback" not in done.stderr


def test_tenants_are_not_given_beside_settings(data_dir: Path) -> None:
    done = _run("up", "--data-dir", data_dir, "--tenant", "third")

    assert done.returncode == 2
    assert "muniment.toml" in done.stderr


def test_status_and_down_of_what_does_not_run(data_dir: Path) -> None:
    status, down = _run("status", "--data-dir", data_dir, "--json"), _run("down", "--data-dir", data_dir)

    assert (status.returncode, json.loads(status.stdout)["condition"]) == (1, "stopped")
    assert (down.returncode, down.stdout) == (0, f"Nothing runs on {data_dir}.\n")


def test_a_reader_that_has_enough_is_no_fault() -> None:
    """`| head -1` closes the pipe while we write."""
    shell = f"{sys.executable} -P -m app.cli --help | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("Usage: muniment")
    assert done.stderr == ""
