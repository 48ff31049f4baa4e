"""Both distributions as wheels in an environment of their own: what a user gets who has no checkout."""

import os
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the two wheels and nothing else."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT / "proto", ROOT):
        run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, project)
    venv.create(folder / "env", with_pip=False)
    installed = folder / "env" / "bin" / "python"
    wheels = sorted(folder.glob("*.whl"))
    assert [wheel.name.split("-")[0] for wheel in wheels] == ["muniment", "muniment_server"]
    run(sys.executable, "-m", "pip", "--python", installed, "install", "--no-deps", "--no-index", *wheels)
    return installed


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT.parent,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dependencies() -> dict[str, str]:
    """Third-party packages of the running environment; its editable installs of ours do not come along."""
    return {"PYTHONPATH": os.pathsep.join(site.getsitepackages())}


def test_the_command_line_runs(python: Path) -> None:
    assert "muniment up" in run(python.with_name("muniment"), "--help", **dependencies())


def test_the_client_has_its_stubs(python: Path) -> None:
    where = run(python, "-P", "-c", "import muniment.v1.evidence_pb2 as e; print(e.__file__)", **dependencies())
    assert Path(where.strip()).is_relative_to(python.parents[1])


@pytest.mark.parametrize(
    "file",
    [
        "policy/bundle/muniment/authz/include.rego",
        "deploy/engines/pins.toml",
        "deploy/engines/opa_authz.rego",
        "corpus/catalog/migrations/versions/0001_the_first_schema.py",
        "app/demo/corpus/brightwater/handbook/leave.md",
        "muniment/py.typed",
    ],
)
def test_what_is_not_python_is_there_too(python: Path, file: str) -> None:
    assert list((python.parents[1] / "lib").glob(f"python*/site-packages/{file}"))
