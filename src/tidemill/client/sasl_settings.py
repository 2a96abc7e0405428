"""SASL settings: the login mechanism and its credentials.  `security_keys` lists the keys."""

import logging
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tidemill.client import jaas
from tidemill.client.failures import SettingsError
from tidemill.client.oauth_token import TokenRequest, UnsignedToken
from tidemill.client.scram import HASHES
from tidemill.client.setting_values import SettingValues

_LOG = logging.getLogger(__name__)

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *HASHES, OAUTHBEARER)
_INSTEAD: Final = {
    "GSSAPI": "Kerberos is not offered; use a listener with SCRAM-SHA-512 or OAUTHBEARER",
    "AWS_MSK_IAM": "AWS IAM is not offered; use the cluster's listener with SCRAM-SHA-512",
}
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_ID: Final = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id")
_SECRET: Final = ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret")
_UNSIGNED: Final = "enable.sasl.oauthbearer.unsecure.jwt"
_CONFIG: Final = "sasl.oauthbearer.config"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """How a connection logs in.  PLAIN and SCRAM use a user name and a password; OAUTHBEARER uses a token source."""

    mechanism: str
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    shown_user: str = field(default="", compare=False)  # the user as shown in errors, with references unresolved
    token_source: TokenRequest | UnsignedToken | None = field(default=None, repr=False)
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def from_values(values: SettingValues) -> SaslSettings:
    """Return the SASL settings.  Raise SettingsError for missing or unsupported values."""
    mechanism = (values.text("sasl.mechanism", "sasl.mechanisms") or "").strip().upper()
    if not mechanism:
        raise SettingsError(f"sasl.mechanism is not set: use {', '.join(MECHANISMS[:-1])} or {MECHANISMS[-1]}")
    if mechanism not in MECHANISMS:
        key = "sasl.mechanism" if "sasl.mechanism" in values else "sasl.mechanisms"
        instead = _INSTEAD.get(mechanism, f"use {', '.join(MECHANISMS[:-1])} or {MECHANISMS[-1]}")
        raise SettingsError(f"{values.shown(key)} is not supported: {instead}")
    return _with_token(values) if mechanism == OAUTHBEARER else _with_password(mechanism, values)


def _with_password(mechanism: str, values: SettingValues) -> SaslSettings:
    username, config = values.text("sasl.username"), values.text("sasl.jaas.config")
    if config is not None:
        if username is not None:
            raise SettingsError("sasl.jaas.config and sasl.username are both set: remove one of them")
        username, password = jaas.parse(config)
        shown = "the user of sasl.jaas.config"
    elif username is None or "sasl.password" not in values:
        missing = "sasl.username" if username is None else "sasl.password"
        raise SettingsError(f"{missing} is not set, but sasl.mechanism={mechanism} needs it")
    else:
        password, shown = values["sasl.password"], values.shown("sasl.username")
    if "\0" in username + password:
        raise SettingsError("sasl.username and sasl.password must not contain a NUL character")
    return SaslSettings(mechanism=mechanism, username=username, password=password, shown_user=shown)


def _with_token(values: SettingValues) -> SaslSettings:
    if values.get("sasl.jaas.config"):
        jaas.parse(values["sasl.jaas.config"])  # raises an error for Java's OAuthBearerLoginModule that states the fix
        raise SettingsError("sasl.jaas.config has a password, but sasl.mechanism=OAUTHBEARER needs a token")
    extensions = _extensions(values.text("sasl.oauthbearer.extensions") or "")
    usual = "oidc" if _URL in values else "default"  # the default: Java's clients have no key for the method
    if values.choice("sasl.oauthbearer.method", ("oidc", "default"), usual) == "oidc":
        source: TokenRequest | UnsignedToken = _request(values)
        shown = next((values.shown(name) for name in _ID if name in values), values.shown(_URL))
    else:
        source, more = _unsigned(values)
        extensions += more
        shown = "the principal of sasl.oauthbearer.config"
    return SaslSettings(mechanism=OAUTHBEARER, token_source=source, extensions=extensions, shown_user=shown)


def _request(values: SettingValues) -> TokenRequest:
    url = (values.text(_URL) or "").strip()
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path:
        return TokenRequest(url=url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise SettingsError(
            f"{values.shown(_URL) if _URL in values else f'{_URL} is not set and'} must be https://HOST/PATH or "
            "file:///PATH"
        )
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        _LOG.warning("%s sends the client secret without encryption: use https", values.shown(_URL))
    client_id, client_secret = values.text(*_ID), values.text(*_SECRET)
    if client_id is None or client_secret is None:
        missing = (_ID if client_id is None else _SECRET)[0]
        raise SettingsError(f"{missing} is not set, but sasl.oauthbearer.method=oidc needs it")
    return TokenRequest(
        url=url,
        client_id=client_id,
        client_secret=client_secret,
        scope=values.text("sasl.oauthbearer.scope"),
        is_url_encoded=values.truth("sasl.oauthbearer.header.urlencode", default=False),
        ca_location=values.text("https.ca.location"),
        ca_certificates=values.text("https.ca.pem"),
    )


def _unsigned(values: SettingValues) -> tuple[UnsignedToken, tuple[tuple[str, str], ...]]:
    """Return the unsigned token and the SASL extensions that `sasl.oauthbearer.config` describes."""
    if not values.truth(_UNSIGNED, default=False):
        raise SettingsError(
            "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.method=oidc and a token endpoint; for tests with "
            f"unsigned tokens, set {_UNSIGNED}=true and {_CONFIG}=principal=NAME"
        )
    words = [word.partition("=") for word in (values.text(_CONFIG) or "").split()]
    named = {name: value for name, _, value in words}
    known = {"principal", "principalClaimName", "scope", "scopeClaimName", "lifeSeconds"}
    extensions = {name.removeprefix("extension_"): v for name, v in named.items() if name.startswith("extension_")}
    lifetime = named.get("lifeSeconds", "3600")
    if not named.get("principal") or not lifetime.isdecimal() or int(lifetime) == 0 or len(named) != len(words):
        raise SettingsError(f"{_CONFIG} must have the form principal=NAME scope=A,B lifeSeconds=N")
    unknown = sorted(name for name in named if name not in known and not name.startswith("extension_"))
    if unknown:
        raise SettingsError(f"{_CONFIG} has {unknown[0]}, which is unknown: use {', '.join(sorted(known))}")
    unsigned = UnsignedToken(
        principal=named["principal"],
        principal_claim=named.get("principalClaimName", "sub"),
        scope=tuple(filter(None, named.get("scope", "").split(","))),
        scope_claim=named.get("scopeClaimName", "scope"),
        lifetime_s=int(lifetime),
    )
    return unsigned, tuple(extensions.items())


def _extensions(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    if not all(name.isalpha() and name != "auth" and value.isprintable() for name, _, value in pairs):
        raise SettingsError("sasl.oauthbearer.extensions must have the form KEY=VALUE,KEY=VALUE, with letters as keys")
    return tuple((name, value) for name, _, value in pairs)
