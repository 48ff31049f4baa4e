"""What an operator may set: defaults < `muniment.toml` < environment (`MUNIMENT_GATEWAY__PORT=8443`).

One frozen section per concern. `load` reports every fault at once, in plain words with its key path, and never the
value: it may be a secret.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from core.errors import InvalidValue
from core.ids import clean_text
from gateway.addresses import checked_key_url, is_loopback
from policy.principal import Role

ENV_PREFIX = "MUNIMENT_"
CONFIG_VARIABLE = "MUNIMENT_CONFIG"
CONFIG_FILE = "muniment.toml"
ENGINE_SUFFIX = "_BIN"  # MUNIMENT_OPA_BIN and the like belong to `deploy`
CLIENT_VARIABLES = ("MUNIMENT_ADDRESS", "MUNIMENT_AS", "MUNIMENT_TOKEN")  # read by the command line as a client
DATASETS_VARIABLE = "MUNIMENT_DATASETS"  # read by tests and evaluation
MIB = 1024 * 1024


class SettingsFault(Exception):
    """`faults` holds one line per fault: key path, colon, what is wrong."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


def _clean(value: str) -> str:
    try:
        return clean_text("name", value)
    except InvalidValue as exc:
        raise ValueError(exc.why) from exc


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https URL")
    return value


Name = Annotated[str, AfterValidator(_clean)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
Port = Annotated[int, Field(ge=0, le=65_535)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class Section(BaseModel):
    """Frozen; an unknown key is a fault, for it is most likely a misspelt one."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class GatewaySettings(Section):
    """Where and how the gateway listens. Port 0 is any free one; deadlines in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: Port = 0
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    max_receive_bytes: Annotated[int, Field(ge=2 * MIB, le=64 * MIB)] = 4 * MIB
    max_send_bytes: Annotated[int, Field(ge=MIB, le=64 * MIB)] = 16 * MIB
    default_deadline_s: Seconds = 30.0
    max_deadline_s: Seconds = 600.0
    stop_grace_s: Seconds = 10.0

    @model_validator(mode="after")
    def _safe(self) -> "GatewaySettings":
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together")
        if self.tls_certificate is None and not is_loopback(self.host):
            raise ValueError("host is not on loopback, so tls_certificate and tls_key are needed")
        if self.default_deadline_s > self.max_deadline_s:
            raise ValueError("default_deadline_s must not be over max_deadline_s")
        return self


class TenantSettings(Section):
    """A tenant by the name that tokens carry."""

    name: Name
    display_name: str = ""


class IssuerSettings(Section):
    """An issuer of tokens with the closed sets of tenants and roles that it may assert."""

    name: Name
    issuer: Annotated[str, Field(min_length=1)]
    audience: Annotated[str, Field(min_length=1)]
    jwks_file: Path | None = None
    jwks_url: str | None = None
    tenants: Annotated[tuple[Name, ...], Field(min_length=1)]
    roles: Annotated[tuple[Role, ...], Field(min_length=1)]

    @field_validator("jwks_url")
    @classmethod
    def _fetched_safely(cls, value: str | None) -> str | None:
        return None if value is None else checked_key_url(value)

    @field_validator("tenants")
    @classmethod
    def _closed(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("*" in name for name in value):
            raise ValueError("must name each tenant: there is no wildcard")
        return value

    @model_validator(mode="after")
    def _one_key_source(self) -> "IssuerSettings":
        if (self.jwks_file is None) == (self.jwks_url is None):
            raise ValueError("needs either jwks_file or jwks_url")
        return self


class DevelopmentUser(Section):
    """Who `--as NAME` of the command line is: the claims of the token that is minted for each command."""

    tenant: Name
    groups: tuple[Name, ...] = ()
    roles: tuple[Role, ...] = (Role.READER,)
    attributes: Mapping[Name, str | int | bool] = {}


class DevelopmentSettings(Section):
    """The development issuer; `issuer` left open, it is on exactly when no other is configured."""

    issuer: bool | None = None
    users: Mapping[Name, DevelopmentUser] = {}

    @model_validator(mode="before")
    @classmethod
    def _switch(cls, value: Any) -> Any:
        """`development = false` is short for `development.issuer = false`."""
        return {"issuer": value} if isinstance(value, bool) else value


class TokenSettings(Section):
    """Bounds for every token, in seconds."""

    max_lifetime_s: Annotated[int, Field(ge=60, le=86_400)] = 3_600
    leeway_s: Annotated[int, Field(ge=0, le=300)] = 30


class OpaSettings(Section):
    """A running policy engine; without a URL, `muniment up` starts one."""

    url: HttpUrl | None = None
    token: SecretStr | None = None


class WeaviateSettings(Section):
    """A running store; without a host, `muniment up` starts one."""

    host: str | None = None
    http_port: Port = 8080
    grpc_port: Port = 50051
    secure: bool = False
    api_key: SecretStr | None = None

    @model_validator(mode="after")
    def _with_credentials(self) -> "WeaviateSettings":
        if self.host is not None and self.api_key is None:
            raise ValueError("a running store needs its api_key")
        return self


class LimitSettings(Section):
    """What one request or document may be."""

    max_document_bytes: Annotated[int, Field(ge=1, le=1024 * MIB)] = 32 * MIB
    max_query_chars: Annotated[int, Field(ge=1, le=65_536)] = 8_192
    max_conversation_turns: Annotated[int, Field(ge=0, le=200)] = 20
    max_scope_values: Annotated[int, Field(ge=1, le=1_000)] = 100
    max_evidence: Annotated[int, Field(ge=1, le=100)] = 100
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 100_000
    max_claims: Annotated[int, Field(ge=1, le=20)] = 20
    max_page_size: Annotated[int, Field(ge=1, le=500)] = 500


class IndexerSettings(Section):
    """How the indexer works. `encoder_threads` are cores that embedding may take from serving.

    `store_call_s`, `drain_s`, `search_s` and `lease_s` as in corpus' StoreTerms and LeaseTerms.
    """

    encoder_threads: Annotated[int, Field(ge=1, le=64)] = 1
    parser_processes: Annotated[int, Field(ge=1, le=64)] = 2
    parse_timeout_s: Seconds = 60.0
    store_call_s: Seconds = 8.0
    drain_s: Seconds = 10.0
    search_s: Seconds = 1.0
    lease_s: Seconds = 20.0
    stop_grace_s: Seconds = 5.0

    @model_validator(mode="after")
    def _lease_outlasts_calls(self) -> "IndexerSettings":
        if self.lease_s <= self.store_call_s:
            raise ValueError("lease_s must be over store_call_s: the lease is renewed between calls")
        return self


class Settings(BaseSettings):
    """Everything."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        hide_input_in_errors=True,
    )

    data_dir: Path = Path("muniment-data")
    gateway: GatewaySettings = GatewaySettings()
    tenants: tuple[TenantSettings, ...] = (TenantSettings(name="default"),)
    issuers: tuple[IssuerSettings, ...] = ()
    development: DevelopmentSettings = DevelopmentSettings()
    tokens: TokenSettings = TokenSettings()
    opa: OpaSettings = OpaSettings()
    weaviate: WeaviateSettings = WeaviateSettings()
    limits: LimitSettings = LimitSettings()
    indexer: IndexerSettings = IndexerSettings()

    @property
    def development_issuer(self) -> bool:
        """Whether the development issuer's tokens are accepted."""
        wanted = self.development.issuer
        return not self.issuers if wanted is None else wanted

    @model_validator(mode="after")
    def _consistent(self) -> "Settings":
        faults = list(_cross_faults(self))
        if faults:
            raise ValueError("\n".join(faults))
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line over environment over file; no dotenv, no secrets folder."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls, cls._config_file()))

    @classmethod
    def _config_file(cls) -> Path | None:
        return None


def load(config: Path | None = None, **overrides: Any) -> Settings:
    """The settings; SettingsFault with every fault.

    `config` is the file to read; without it the one that MUNIMENT_CONFIG names, else `muniment.toml` in the working
    folder where there is one. `overrides` win over all, as from the command line.
    """
    path = _config_path(config)

    class FromFile(Settings):
        """Reads the chosen file."""

        @classmethod
        def _config_file(cls) -> Path | None:
            return path

    faults = [] if path is None or path.is_file() else [f"{path}: no such file"]
    faults += _unknown_variables()
    try:
        settings = FromFile(**overrides)
    except ValidationError as exc:
        faults += _plain(exc)
    except SettingsError as exc:
        faults.append(f"environment: {exc}")
    except ValueError as exc:  # tomllib.TOMLDecodeError: says where, not what
        faults.append(f"{path}: is not TOML: {exc}")
    if faults:
        raise SettingsFault(faults)
    return settings


def _config_path(config: Path | None) -> Path | None:
    if config is not None:
        return config
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    default = Path(CONFIG_FILE)
    return default if default.is_file() else None


def _unknown_variables() -> Iterator[str]:
    """A variable that begins like ours and is not is a misspelt one: ignoring it would hide a lost setting."""
    for variable in sorted(os.environ):
        others = (CONFIG_VARIABLE, DATASETS_VARIABLE, *CLIENT_VARIABLES)
        foreign = variable.endswith(ENGINE_SUFFIX) or variable in others
        if variable.startswith(ENV_PREFIX) and not foreign:
            section = variable.removeprefix(ENV_PREFIX).lower().split("__")[0]
            if section not in Settings.model_fields:
                yield f"{variable}: is not a setting"


def _cross_faults(settings: Settings) -> Iterator[str]:
    names = [tenant.name for tenant in settings.tenants]
    if len(set(names)) != len(names):
        yield "tenants: two tenants share a name"
    if settings.development.issuer and settings.issuers:
        yield "development: the development issuer can't stand beside configured issuers"
    if settings.development.users and not settings.development_issuer:
        yield "development.users: the development issuer, which speaks for them, is off"
    for user, claims in settings.development.users.items():
        if claims.tenant not in names:
            yield f"development.users.{user}.tenant: not configured: {claims.tenant}"
    if settings.development.issuer is False and not settings.issuers:
        yield "issuers: none is configured and the development issuer is off, so nobody could come in"
    for kind in ("name", "issuer"):
        values = [getattr(issuer, kind) for issuer in settings.issuers]
        if len(set(values)) != len(values):
            yield f"issuers: {kind} is not unique"
    for index, issuer in enumerate(settings.issuers):
        unknown = sorted(set(issuer.tenants) - set(names))
        if unknown:
            yield f"issuers.{index}.tenants: not configured: {', '.join(unknown)}"


_PLAIN = {
    "missing": "is needed",
    "extra_forbidden": "is not a setting",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "path_type": "must be a path",
    "tuple_type": "must be a list",
    "model_type": "must be a table of settings",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}


def _plain(error: ValidationError) -> list[str]:
    lines = []
    for fault in error.errors(include_url=False, include_input=False):
        path = ".".join(str(part) for part in fault["loc"])
        kind, text = fault["type"], fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        if kind == "value_error":
            lines += [f"{path}: {line}" if path else line for line in text.split("\n")]
        else:
            plain = _PLAIN.get(kind, f"must be {text}")
            lines.append(f"{path}: {plain}")
    return lines
