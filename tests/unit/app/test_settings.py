"""Settings: where they come from, what is refused, and how it is told."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.settings import Settings, SettingsFault, load
from policy.principal import Role

ISSUER = """
[[issuers]]
name = "corporate"
issuer = "https://idp.acme.example"
audience = "muniment"
jwks_url = "https://idp.acme.example/jwks"
tenants = ["acme"]
roles = ["reader", "writer"]
"""


@pytest.fixture(autouse=True)
def _clean_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings are read from the process's own environment and folder, so those are the test's."""
    for name in [name for name in os.environ if name.startswith("MUNIMENT_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(text: str) -> Path:
    path = Path("muniment.toml")
    path.write_text(text)
    return path


def faults(text: str = "", **overrides: Any) -> tuple[str, ...]:
    write(text)
    with pytest.raises(SettingsFault) as caught:
        load(**overrides)
    return caught.value.faults


def test_defaults_are_a_development_gateway_on_loopback() -> None:
    settings = load()
    assert (settings.gateway.host, settings.gateway.port) == ("127.0.0.1", 0)
    assert settings.development_issuer
    assert settings.limits.max_document_bytes == 32 * 1024 * 1024
    assert settings.limits.max_query_chars == 8_192


def test_environment_is_over_the_file_and_the_command_line_over_both(monkeypatch: pytest.MonkeyPatch) -> None:
    write('data_dir = "from-file"\n[gateway]\nport = 1\ndefault_deadline_s = 5\n[[tenants]]\nname = "acme"\n')
    assert (load().data_dir, load().gateway.port) == (Path("from-file"), 1)
    monkeypatch.setenv("MUNIMENT_GATEWAY__PORT", "2")
    settings = load()
    assert (settings.gateway.port, settings.gateway.default_deadline_s) == (2, 5.0)
    assert load(gateway={"port": 3}).gateway.port == 3
    monkeypatch.setenv("MUNIMENT_TENANTS", '[{"name": "a"}, {"name": "b"}]')
    assert [tenant.name for tenant in load().tenants] == ["a", "b"]


def test_the_file_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[gateway]\nport = 7\n")
    assert load(other).gateway.port == 7
    monkeypatch.setenv("MUNIMENT_CONFIG", str(other))
    assert load().gateway.port == 7
    monkeypatch.setenv("MUNIMENT_CONFIG", "none.toml")
    with pytest.raises(SettingsFault, match=r"none\.toml: no such file"):
        load()


def test_every_fault_is_told_at_once_in_plain_words_with_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_GATWAY__PORT", "1")
    found = faults(
        """
        colour = "red"
        [gateway]
        port = "many"
        tls_certificate = 7
        [tokens]
        leeway_s = 1000
        [[tenants]]
        name = " acme"
        [[issuers]]
        name = "x"
        [limits]
        max_query_chars = 1.5
        """
    )
    text = "\n".join(found)
    for expected in (
        "MUNIMENT_GATWAY__PORT: is not a setting",
        "colour: is not a setting",
        "gateway.port: must be a whole number",
        "gateway.tls_certificate: must be a path",
        "tokens.leeway_s: must be less than or equal to 300",
        "tenants.0.name: must not begin or end with white space",
        "issuers.0.issuer: is needed",
        "issuers.0.audience: is needed",
        "issuers.0.tenants: is needed",
    ):
        assert expected in text
    assert "red" not in text
    assert "many" not in text


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "muniment.example", "localhost.example"])  # noqa: S104
def test_a_listener_beyond_loopback_needs_tls(host: str) -> None:
    assert faults(f'[gateway]\nhost = "{host}"') == (
        "gateway: host is not on loopback, so tls_certificate and tls_key are needed",
    )
    write(f'[gateway]\nhost = "{host}"\ntls_certificate = "a.pem"\ntls_key = "b.pem"')
    assert load().gateway.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    write(f'[gateway]\nhost = "{host}"')
    assert load().gateway.host == host


def test_certificate_and_key_belong_together() -> None:
    assert "belong together" in faults('[gateway]\ntls_certificate = "a.pem"')[0]


def test_an_issuer_turns_the_development_issuer_off() -> None:
    write('[[tenants]]\nname = "acme"\n' + ISSUER)
    settings = load()
    assert not settings.development_issuer
    assert settings.issuers[0].roles == (Role.READER, Role.WRITER)


def test_the_development_issuer_is_refused_beside_another() -> None:
    found = faults('development = true\n[[tenants]]\nname = "acme"\n' + ISSUER)
    assert found == ("development: the development issuer can't stand beside configured issuers",)


def test_without_any_issuer_nobody_could_come_in() -> None:
    assert "nobody could come in" in faults("development = false")[0]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('tenants = ["acme"]', 'tenants = ["*"]', "issuers.0.tenants: must name each tenant: there is no wildcard"),
        ('tenants = ["acme"]', "tenants = []", "issuers.0.tenants: must not be empty"),
        ('tenants = ["acme"]', 'tenants = ["acme", "other"]', "issuers.0.tenants: not configured: other"),
        ('roles = ["reader", "writer"]', "roles = []", "issuers.0.roles: must not be empty"),
        ('"reader", "writer"', '"root"', "issuers.0.roles.0: must be 'reader', "),
        ('audience = "muniment"', 'audience = ""', "issuers.0.audience: must not be empty"),
        ('issuer = "https://idp.acme.example"', 'issuer = ""', "issuers.0.issuer: must not be empty"),
        ('jwks_url = "https:', 'jwks_url = "http:', "issuers.0.jwks_url: must be https"),
        ("jwks_url =", "# ", "issuers.0: needs either jwks_file or jwks_url"),
        ("jwks_url =", 'jwks_file = "k.json"\njwks_url =', "issuers.0: needs either jwks_file or jwks_url"),
    ],
)
def test_j2_an_issuer_is_closed_and_complete(old: str, new: str, expected: str) -> None:
    found = faults('[[tenants]]\nname = "acme"\n' + ISSUER.replace(old, new))
    assert found[0].startswith(expected)


def test_names_are_unique() -> None:
    found = faults('[[tenants]]\nname = "acme"\n[[tenants]]\nname = "acme"\n' + ISSUER + ISSUER)
    assert found == (
        "tenants: two tenants share a name",
        "issuers: name is not unique",
        "issuers: issuer is not unique",
    )


def test_secrets_are_masked_and_values_are_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_WEAVIATE__API_KEY", "hunter2")
    monkeypatch.setenv("MUNIMENT_WEAVIATE__HOST", "store.internal")
    monkeypatch.setenv("MUNIMENT_OPA__TOKEN", "hunter3")
    settings = load()
    assert settings.weaviate.api_key is not None
    assert settings.weaviate.api_key.get_secret_value() == "hunter2"
    assert "hunter" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert "hunter" not in "\n".join(faults(weaviate={"grpc_port": "hunter4"}))


def test_a_running_store_needs_its_key() -> None:
    assert faults('[weaviate]\nhost = "store"') == ("weaviate: a running store needs its api_key",)


def test_what_is_not_toml_is_told_with_its_place() -> None:
    assert faults("gateway = [")[0].startswith("muniment.toml: is not TOML: ")


def test_a_list_in_the_environment_that_is_not_json_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_TENANTS", "acme")
    [fault] = faults()
    assert fault.startswith("environment: ")
    assert "tenants" in fault


def test_settings_are_frozen() -> None:
    settings = load()
    with pytest.raises(ValidationError):
        settings.data_dir = Path("other")
    assert isinstance(settings, Settings)


def test_engine_and_client_variables_are_not_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_OPA_BIN", "/usr/bin/opa")
    monkeypatch.setenv("MUNIMENT_TOKEN", "t")
    monkeypatch.setenv("MUNIMENT_ADDRESS", "localhost:1")
    assert load().development_issuer
