"""Logs a connection in with SASL: SaslHandshake chooses the mechanism, SaslAuthenticate carries its messages (KIP-152).

A mechanism is a generator that yields the client's messages and receives the broker's reply to each.

    PLAIN        NUL user NUL password                              RFC 4616
    SCRAM-SHA-…  two messages each way; see `scram`                 RFC 5802
    OAUTHBEARER  n,, ^A auth=Bearer TOKEN ^A [KEY=VALUE ^A …] ^A    RFC 7628; a non-empty reply is an error
"""

import secrets
from collections.abc import Callable, Generator
from typing import Any, Final, Protocol

from tidemill.client import oauth_token
from tidemill.client.failures import BrokerUnreachable, SettingsError
from tidemill.client.sasl_settings import OAUTHBEARER, PLAIN, SaslSettings
from tidemill.client.scram import ScramClient, ScramError
from tidemill.model import errors
from tidemill.wire.messages import sasl_authenticate, sasl_handshake
from tidemill.wire.schema import Api, Message

_HANDSHAKE_VERSION: Final = 1  # with v0, SASL messages have no Kafka request header
_BROKER_MESSAGE_MAX: Final = 300  # characters of a broker's message that an error shows
_TRANSIENT: Final = frozenset({errors.REQUEST_TIMED_OUT, errors.NETWORK_EXCEPTION, errors.UNKNOWN_SERVER_ERROR})


class Ask(Protocol):
    """Sends a request on the connection that logs in, and returns the response."""

    def __call__(self, api: Api, request: Message, version: int | None = None) -> Any: ...


def log_in(ask: Ask, broker: str, settings: SaslSettings, timeout_s: Callable[[], float]) -> int:
    """
    Log in, and return the session lifetime in milliseconds (KIP-368); 0 if the broker does not limit it.

    `broker` names the broker in errors; `timeout_s` returns the remaining time.  Raise SettingsError if the broker
    refuses the mechanism or the credentials, and BrokerUnreachable for failures after which a retry may succeed.
    """
    request = sasl_handshake.Request(mechanism=settings.mechanism)
    handshake: sasl_handshake.Response = ask(sasl_handshake.API, request, _HANDSHAKE_VERSION)
    if handshake.error_code == errors.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(sorted(handshake.mechanisms))
        raise SettingsError(
            f"broker {broker} does not offer sasl.mechanism={settings.mechanism}: set one that it offers: "
            f"{offered or 'it names none'}"
        )
    if handshake.error_code == errors.ILLEGAL_SASL_STATE:
        raise no_sasl(broker)
    if handshake.error_code != errors.NONE:
        raise SettingsError(f"broker {broker} refuses SaslHandshake: {errors.name(handshake.error_code)}")
    exchange = _exchange(settings, timeout_s)
    message = next(exchange)
    while True:
        answer: sasl_authenticate.Response = ask(sasl_authenticate.API, sasl_authenticate.Request(auth_bytes=message))
        if answer.error_code != errors.NONE:
            raise _refusal(broker, settings, answer)
        try:
            message = exchange.send(bytes(answer.auth_bytes))
        except StopIteration:
            return answer.session_lifetime_ms
        except ScramError as error:
            raise SettingsError(
                f"the login of {settings.shown_user} at broker {broker} failed with sasl.mechanism="
                f"{settings.mechanism}: {error}"
            ) from None


def no_sasl(broker: str) -> SettingsError:
    """Return the error for a listener on which clients do not log in."""
    return SettingsError(
        f"broker {broker} has no SASL on this listener: set security.protocol=PLAINTEXT or SSL, or use another port"
    )


def _refusal(broker: str, settings: SaslSettings, answer: sasl_authenticate.Response) -> Exception:
    if answer.error_code in _TRANSIENT:
        return BrokerUnreachable(f"broker {broker} could not check the login: {errors.name(answer.error_code)}")
    if settings.token_source is not None:
        oauth_token.forget(settings.token_source)
    said = " ".join((answer.error_message or "").split())[:_BROKER_MESSAGE_MAX]
    if not said or (settings.password and settings.password in said):
        said = errors.name(answer.error_code)
    check = (
        "check the token's issuer, audience and scope"
        if settings.mechanism == OAUTHBEARER
        else "check user and password, and that the broker has this user for this mechanism"
    )
    return SettingsError(
        f"broker {broker} refuses the login of {settings.shown_user} with sasl.mechanism={settings.mechanism}: "
        f"{said}; {check}"
    )


def _exchange(settings: SaslSettings, timeout_s: Callable[[], float]) -> Generator[bytes, bytes]:
    if settings.mechanism == PLAIN:
        return _plain(settings)
    if settings.mechanism == OAUTHBEARER:
        return _oauth_bearer(settings, timeout_s)
    return _scram(settings)


def _plain(settings: SaslSettings) -> Generator[bytes, bytes]:
    yield f"\0{settings.username}\0{settings.password}".encode()


def _scram(settings: SaslSettings) -> Generator[bytes, bytes]:
    client = ScramClient(settings.mechanism, settings.username, settings.password, secrets.token_urlsafe(24))
    server_first = yield client.first()
    server_final = yield client.final(server_first)
    client.check(server_final)


def _oauth_bearer(settings: SaslSettings, timeout_s: Callable[[], float]) -> Generator[bytes, bytes]:
    assert settings.token_source is not None, "sasl_settings gives every OAUTHBEARER login a token source"
    parts = [f"auth=Bearer {oauth_token.token(settings.token_source, timeout_s())}"]
    parts += [f"{key}={value}" for key, value in settings.extensions]
    refusal = yield ("n,,\x01" + "".join(f"{part}\x01" for part in parts) + "\x01").encode()
    if refusal:
        yield b"\x01"  # RFC 7628: after this reply, the broker ends the exchange with an error
