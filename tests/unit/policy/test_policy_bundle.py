"""The shipped Rego holds under OPA's own checks and tests; a bundle's revision is its contents."""

import json
import subprocess
from pathlib import Path

import pytest

from core.ids import TenantId
from deploy.engines import locate
from policy.bundle import ROOTS, SHIPPED, build_bundle, reads_now, shipped_files
from policy.errors import PolicyRefused
from tests.unit.policy.opa_server import opa_binary

T1 = TenantId("0f3a")
NARROW = f'# ours\npackage muniment.tenants["{T1}"]\n\ninclude if input.fragment.trust >= 2\n'


def _run(*argv: str | Path) -> str:
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rego_is_strict_formatted_and_green() -> None:
    opa = opa_binary()
    _run(opa, "check", "--strict", SHIPPED)
    assert _run(opa, "fmt", "--list", SHIPPED) == ""
    assert "PASS" in _run(opa, "test", SHIPPED)


def test_rego_is_clean_for_regal() -> None:
    """Where the linter has not been built, `make check` builds it and lints."""
    regal = locate("regal")
    if regal is not None:
        _run(regal, "lint", SHIPPED)


def test_a_bundle_has_rules_data_and_manifest_but_no_tests(tmp_path: Path) -> None:
    revision = build_bundle(tmp_path / "bundle", {T1: NARROW})
    names = {path.relative_to(tmp_path / "bundle").as_posix() for path in (tmp_path / "bundle").rglob("*.*")}
    assert names == {*shipped_files(), f"muniment/tenants/{T1}/include.rego", "data.json", ".manifest"}
    data = json.loads((tmp_path / "bundle" / "data.json").read_text())
    assert data == {"muniment": {"meta": {"revision": revision, "reads_now": False, "tenant_packages": [T1]}}}
    manifest = json.loads((tmp_path / "bundle" / ".manifest").read_text())
    assert manifest == {"roots": list(ROOTS), "revision": revision}
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_the_revision_is_a_digest_of_the_contents(tmp_path: Path) -> None:
    plain = build_bundle(tmp_path / "a")
    assert plain == build_bundle(tmp_path / "b") == build_bundle(tmp_path / "a")
    with_tenant = build_bundle(tmp_path / "c", {T1: NARROW})
    changed = build_bundle(tmp_path / "c", {T1: NARROW.replace("2", "3")})
    assert len({plain, with_tenant, changed}) == 3
    assert plain.startswith("p-")
    assert len(plain) == 14


def test_replacing_a_bundle_leaves_nothing_of_the_old(tmp_path: Path) -> None:
    build_bundle(tmp_path / "bundle", {T1: NARROW})
    build_bundle(tmp_path / "bundle")
    assert not (tmp_path / "bundle" / "muniment" / "tenants").exists()


@pytest.mark.parametrize(
    "text",
    [
        "package muniment.authz\n\ninclude := true\n",
        'package muniment.tenants["other"]\n\ninclude := true\n',
        "package muniment.tenants\n\ninclude := true\n",
        f'package muniment.tenants["{T1}"].more\n\ninclude := true\n',
        f'# package muniment.tenants["{T1}"]\npackage muniment.authz\n\ninclude := true\n',
        "include := true\n",
        "",
    ],
)
def test_a_tenant_writes_in_its_own_package_only(tmp_path: Path, text: str) -> None:
    with pytest.raises(PolicyRefused):
        build_bundle(tmp_path / "bundle", {T1: text})
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("tenant", ["", "../up", "a/b", 'a"]', "a.b", "a b"])
def test_a_tenant_id_is_a_safe_name(tmp_path: Path, tenant: str) -> None:
    with pytest.raises(PolicyRefused):
        build_bundle(tmp_path / "bundle", {TenantId(tenant): f'package muniment.tenants["{tenant}"]\n'})


@pytest.mark.parametrize("builtin", ["time.now_ns()", "http.send({})", "opa.runtime()", 'rand.intn("a", 3)'])
def test_what_differs_from_call_to_call_has_no_place_in_a_bundle(tmp_path: Path, builtin: str) -> None:
    text = NARROW + f"\nx := {builtin}\n"
    with pytest.raises(PolicyRefused) as refusal:
        build_bundle(tmp_path / "bundle", {T1: text})
    assert refusal.value.line == 6


@pytest.mark.parametrize(
    "rego",
    [
        "p if input.fragment.valid_from <= input.now",
        'p if input["now"] > 3',
        "p if { k := data.k; input[k] > 3 }",
        "p if { x := input; x.now > 3 }",
        "import input.now",
        "import input as i",
        'p := $"{input.now}"',
        "p if f(input)",
    ],
)
def test_every_way_to_the_time_counts_as_reading_it(rego: str) -> None:
    assert reads_now(rego)


def test_the_shipped_rules_do_not_read_the_time() -> None:
    assert [name for name, text in shipped_files().items() if reads_now(text)] == ["muniment/authz/visible.rego"]
    assert shipped_files()["muniment/authz/visible.rego"].count("input.now") == 1  # handed on


def test_a_tenant_that_reads_the_time_is_recorded(tmp_path: Path) -> None:
    build_bundle(tmp_path / "bundle", {T1: NARROW + "\ninclude if input.now > 3\n"})
    assert json.loads((tmp_path / "bundle" / "data.json").read_text())["muniment"]["meta"]["reads_now"] is True
