"""Builds the directory that OPA is started with: the shipped Rego, tenants' packages and generated data."""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from core.ids import PolicyRevision, TenantId
from core.keys import digest
from policy.errors import PolicyRefused

SHIPPED = Path(__file__).with_name("bundle")

# not `muniment/relationships`: pushed data lives beside the bundle, and OPA refuses pushes under a bundle's root
ROOTS = ("muniment/authz", "muniment/meta", "muniment/tenants")

_TENANT_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_PACKAGE = re.compile(
    r'\A(?:\s|#[^\n]*\n)*package[ \t]+muniment\.tenants(?:\.(\w+)|\["([^"\n]+)"\])[ \t]*(?:#[^\n]*)?\n'
)

_HANDS_ON_NOW = "muniment/authz/visible.rego"  # gives each fragment's check the whole input, and reads no time itself

# Both look at the raw text, comments and strings included: template strings hold code, so telling code from text takes
# a parser, and a false alarm costs little.
# the parts of the input that do not change while time passes; any other use counts as reading `now`
_TIMELESS_INPUT = re.compile(r"\binput\b(?!\.(?:principal|fragment|fragments|rpc|source)\b)")
# a decision is kept and proved by its revisions: what differs from call to call has no place in one
_UNREPEATABLE = re.compile(r"\b(?:time\.now_ns|rand\.\w+|uuid\.rfc4122|http\.send|net\.lookup_ip_addr|opa\.runtime)\b")


def build_bundle(target_dir: Path, tenant_packages: Mapping[TenantId, str] | None = None) -> PolicyRevision:
    """Replace `target_dir` by a bundle for `opa run --bundle`; the revision is a digest of its contents.

    `tenant_packages` holds each tenant's Rego text, in package `muniment.tenants["<tenant id>"]`, with a rule
    `include` over `input.principal` and `input.fragment`. Raises PolicyRefused for a text in another package or with
    built-ins whose result is not determined by input and data. It does not compile: OPA refuses a broken bundle.
    """
    files = shipped_files() | _tenant_files(tenant_packages or {})
    for name, text in files.items():
        _refuse_unrepeatable(name, text)
    meta = {
        "reads_now": any(reads_now(text) for name, text in files.items() if name != _HANDS_ON_NOW),
        "tenant_packages": sorted(tenant_packages or {}),
    }
    revision = revision_of(files, meta)
    contents = files | {
        "data.json": _json({"muniment": {"meta": {**meta, "revision": revision}}}),
        ".manifest": _json({"roots": list(ROOTS), "revision": revision}),
    }
    _replace(target_dir, contents)
    return revision


def shipped_files() -> dict[str, str]:
    """The platform's Rego by path within the bundle, without tests."""
    paths = sorted(path for path in SHIPPED.rglob("*.rego") if not path.name.endswith("_test.rego"))
    return {path.relative_to(SHIPPED).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def revision_of(files: Mapping[str, str], meta: Mapping[str, object]) -> PolicyRevision:
    """`p-` and 12 hex digits over names, texts and generated data."""
    parts = [part for name in sorted(files) for part in (name, files[name])]
    return PolicyRevision("p-" + digest(*parts, _json(meta))[:12])


def reads_now(rego: str) -> bool:
    """Whether a module may depend on `input.now`: false only when each use of `input` names a part without time."""
    return _TIMELESS_INPUT.search(rego) is not None


def _tenant_files(packages: Mapping[TenantId, str]) -> dict[str, str]:
    files = {}
    for tenant_id, text in packages.items():
        name = f"muniment/tenants/{tenant_id}/include.rego"
        if not _TENANT_ID.fullmatch(tenant_id):
            raise PolicyRefused("tenant id", 0, "only letters, digits, _ and - can name a tenant's package")
        declared = _PACKAGE.match(text)
        if declared is None or (declared[1] or declared[2]) != tenant_id:
            raise PolicyRefused(name, 1, f'must be in package muniment.tenants["{tenant_id}"]')
        files[name] = text
    return files


def _refuse_unrepeatable(name: str, text: str) -> None:
    found = _UNREPEATABLE.search(text)
    if found is not None:
        why = f"{found[0]} is not determined by input and data; the time of a request is input.now"
        raise PolicyRefused(name, text.count("\n", 0, found.start()) + 1, why)


def _replace(target_dir: Path, contents: Mapping[str, str]) -> None:
    """Written aside and then renamed: nobody starts an engine on half a bundle."""
    target_dir.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target_dir.name}-", dir=target_dir.parent))
    try:
        for name, text in contents.items():
            path = aside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        if target_dir.exists():
            shutil.rmtree(target_dir)
        aside.rename(target_dir)
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # gone already when the rename succeeded


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
