"""OAuth tokens for SASL/OAUTHBEARER: requested from a token endpoint, read from a file, or unsigned for tests.

    sasl.oauthbearer.method=oidc       client id and secret are sent to the token endpoint (RFC 6749 §4.4)
      …token.endpoint.url=file:///PATH another program maintains a token in this file, read for each login
    sasl.oauthbearer.method=default    an unsigned JWT with the claims of sasl.oauthbearer.config, as in librdkafka

A requested token is cached for later connections of the process until four fifths of its lifetime have passed.
"""

import json
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from tidemill.client.failures import BrokerUnreachable, SettingsError
from tidemill.client.tls_settings import trusting

_TOKEN_BYTES_MAX: Final = 1 << 20
_KEPT_MAX: Final = 16  # cached tokens; the oldest is dropped, and requested again when needed
_LIFETIME_USED: Final = 0.8
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"

_kept: dict["TokenRequest", tuple[str, float]] = {}  # the token, and the monotonic time until which it is used


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A request to a token endpoint; with a file URL, only `url` is used."""

    url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str | None = None
    is_url_encoded: bool = False
    ca_location: str | None = None  # None: the system's trusted authorities
    ca_certificates: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsignedToken:
    """The claims of an unsigned token."""

    principal: str
    principal_claim: str = "sub"
    scope: tuple[str, ...] = ()
    scope_claim: str = "scope"
    lifetime_s: int = 3_600


def token(source: TokenRequest | UnsignedToken, timeout_s: float) -> str:
    """
    Return a token.

    Raise SettingsError if the endpoint refuses the client, and BrokerUnreachable if it does not respond in time.
    """
    if isinstance(source, UnsignedToken):
        return _unsigned(source, int(time.time()))
    if source.url.startswith("file:"):
        return _from_file(source.url)
    kept = _kept.get(source)
    if kept is not None and time.monotonic() < kept[1]:
        return kept[0]
    requested_at = time.monotonic()
    text, lifetime_s = _requested(source, timeout_s)
    _kept.pop(source, None)
    if lifetime_s > 0:
        while len(_kept) >= _KEPT_MAX:
            _kept.pop(next(iter(_kept)), None)
        _kept[source] = text, requested_at + lifetime_s * _LIFETIME_USED
    return text


def forget(source: TokenRequest | UnsignedToken) -> None:
    """Drop the cached token, because a broker has refused it, so that the next login requests a new one."""
    if isinstance(source, TokenRequest):
        _kept.pop(source, None)


def _unsigned(claims: UnsignedToken, now_s: int) -> str:
    payload: dict[str, Any] = {claims.principal_claim: claims.principal, "iat": now_s, "exp": now_s + claims.lifetime_s}
    if claims.scope:
        payload[claims.scope_claim] = list(claims.scope)
    parts = (json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "none"}, payload))
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def _from_file(url: str) -> str:
    path = unquote(urlsplit(url).path)
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(_TOKEN_BYTES_MAX).strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a token"
        raise SettingsError(f"{_ENDPOINT}={url}: the file cannot be read: {reason}") from None
    if not _is_token(text):
        raise SettingsError(f"{_ENDPOINT}={url}: the file does not contain a token")
    return text


def _requested(wanted: TokenRequest, timeout_s: float) -> tuple[str, float]:
    """Return a new token, and its lifetime in seconds; 0 if the lifetime is unknown."""
    parts = urlsplit(wanted.url)
    shown = f"{_ENDPOINT}={parts.scheme}://{parts.netloc}{parts.path}"  # a query may contain a secret
    identity = [wanted.client_id, wanted.client_secret]
    pair = ":".join(quote(part, safe="") for part in identity) if wanted.is_url_encoded else ":".join(identity)
    form = {"grant_type": "client_credentials", **({} if wanted.scope is None else {"scope": wanted.scope})}
    request = urllib.request.Request(
        wanted.url,
        urlencode(form).encode(),
        {"Authorization": f"Basic {b64encode(pair.encode()).decode()}", "Accept": "application/json"},
    )
    context = trusting(wanted.ca_location, wanted.ca_certificates, "https.ca")
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=max(timeout_s, 0.001)) as response:
            body = response.read(_TOKEN_BYTES_MAX)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 429 or error.code >= 500:
                raise BrokerUnreachable(f"{shown} responds with status {error.code}") from None
            reason = _error_of(error.read(_TOKEN_BYTES_MAX))
        raise SettingsError(
            f"{shown} refuses the client of sasl.oauthbearer.client.id: status {error.code}{reason}; "
            "check the URL, the client id, the client secret and the scope"
        ) from None
    except OSError as error:  # URLError, TimeoutError and SSLError are OSErrors
        cause = getattr(error, "reason", error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise SettingsError(
                f"the certificate of {shown} is not trusted: {cause.verify_message}; check https.ca.location"
            ) from None
        raise BrokerUnreachable(f"{shown} does not respond: {cause}") from None
    try:
        fields = json.loads(body)
        text = fields["access_token"]
    except (ValueError, KeyError, TypeError):
        text = None
    if not isinstance(text, str) or not _is_token(text):
        raise SettingsError(f"{shown} responds without access_token: check the URL")
    lifetime = fields.get("expires_in")
    return text, float(lifetime) if isinstance(lifetime, int | float) else _lifetime_in(text)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would send the client secret to another address."""

    def redirect_request(self, *_: object) -> None:
        return None


def _error_of(body: bytes) -> str:
    """
    Return the error code in a refusal (RFC 6749 §5.2), if any.

    The error description is free text and is left out.
    """
    try:
        return f", {str(json.loads(body)['error'])[:100]}"
    except (ValueError, KeyError, TypeError):
        return ""


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _lifetime_in(text: str) -> float:
    """Return the seconds until a JWT expires; 0 if the token is not a JWT or has no claim `exp`."""
    try:
        payload = text.split(".")[1]
        return max(float(json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]) - time.time(), 0)
    except (IndexError, ValueError, KeyError, TypeError):
        return 0
