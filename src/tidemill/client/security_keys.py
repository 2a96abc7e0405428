"""All security keys of librdkafka and the Java client, and whether this client uses, ignores or refuses them.

A key without a row is unknown, and probably misspelt.  A row's text says what a used key means, why an ignored key
has no effect, or what to set instead of a refused key.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Use(StrEnum):
    USED = "used"
    NO_EFFECT = "no effect"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SecurityKey:
    name: str
    use: Use
    text: str
    type: str = "text"
    default: str = ""
    is_secret: bool = False  # errors, plans and logs never show its value
    allowed: frozenset[str] = frozenset()  # values of a refused key that change nothing and are therefore accepted


def _used(name: str, text: str, *, type: str = "text", default: str = "", is_secret: bool = False) -> SecurityKey:
    return SecurityKey(name, Use.USED, text, type, default, is_secret)


def _no_effect(name: str, text: str, *, is_secret: bool = False) -> SecurityKey:
    return SecurityKey(name, Use.NO_EFFECT, text, is_secret=is_secret)


def _refused(name: str, text: str, *, is_secret: bool = False, allowed: Collection[str] = ()) -> SecurityKey:
    return SecurityKey(name, Use.REFUSED, text, is_secret=is_secret, allowed=frozenset(allowed))


_PEM_ONLY: Final = "PEM files have no store password; ssl.key.password decrypts the key"
_JAVA_CLASS: Final = "a Java class cannot be loaded; leave the key out"
_OF_C: Final = "only a C program can set it; name PEM files instead"
_KERBEROS: Final = "only GSSAPI (Kerberos) uses it, which this client does not offer"
_OF_BROKERS: Final = "brokers check tokens; a client only sends them"
_REFRESH: Final = "a token is renewed when four fifths of its lifetime have passed"
_RETRY: Final = "a failed token request is retried like a failed connection: retry.backoff.ms, retry.backoff.max.ms"
_ASSERTION: Final = (
    "this client does not sign assertions; set sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret, or let "
    "another program keep a token in a file and set sasl.oauthbearer.token.endpoint.url=file:///PATH"
)
_CALLBACK: Final = "set sasl.oauthbearer.method=oidc and the keys of the token endpoint"
_OF_KAFKA: Final = "org.apache.kafka.common.security.oauthbearer"

_SASL: Final = (
    _used("security.protocol", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", default="PLAINTEXT"),
    _used("sasl.mechanism", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; required with SASL"),
    _used("sasl.mechanisms", "librdkafka's name of sasl.mechanism"),
    _used("sasl.username", "user of PLAIN and SCRAM"),
    _used("sasl.password", "password of PLAIN and SCRAM", is_secret=True),
    _used("sasl.jaas.config", "user and password in Java's form: PlainLoginModule or ScramLoginModule", is_secret=True),
    _used(
        "sasl.oauthbearer.method",
        "oidc: tokens of a token endpoint; default: unsigned tokens",
        default="oidc if there is a token endpoint",
    ),
    _used(
        "sasl.oauthbearer.token.endpoint.url", "where to request tokens; or file:///PATH, a file that contains a token"
    ),
    _used("sasl.oauthbearer.client.id", "client id for the token endpoint"),
    _used("sasl.oauthbearer.client.credentials.client.id", "the same"),
    _used("sasl.oauthbearer.client.secret", "client secret for the token endpoint", is_secret=True),
    _used("sasl.oauthbearer.client.credentials.client.secret", "the same", is_secret=True),
    _used("sasl.oauthbearer.scope", "scope to request"),
    _used("sasl.oauthbearer.extensions", "SASL extensions, KEY=VALUE,KEY=VALUE", is_secret=True),
    _used(
        "sasl.oauthbearer.header.urlencode",
        "whether to URL-encode client id and secret (RFC 6749)",
        type="true or false",
        default="false",
    ),
    _used(
        "enable.sasl.oauthbearer.unsecure.jwt",
        "whether to send unsigned tokens, for tests",
        type="true or false",
        default="false",
    ),
    _used("sasl.oauthbearer.config", "claims of an unsigned token: principal=NAME scope=A,B lifeSeconds=N"),
    _used("https.ca.location", "PEM file or directory of authorities for the token endpoint", default="the system's"),
    _used("https.ca.pem", "the same, inline"),
    _refused(
        "sasl.oauthbearer.grant.type",
        "only client_credentials is offered; " + _ASSERTION,
        allowed=["client_credentials"],
    ),
    _refused("sasl.oauthbearer.metadata.authentication.type", _CALLBACK, allowed=["none"]),
    _refused("oauthbearer_token_refresh_cb", _CALLBACK),
    _refused(
        "sasl.login.callback.handler.class",
        f"{_JAVA_CLASS}; for tokens, {_CALLBACK}",
        allowed=[
            f"{_OF_KAFKA}.OAuthBearerLoginCallbackHandler",
            f"{_OF_KAFKA}.secured.OAuthBearerLoginCallbackHandler",
        ],
    ),
    _refused("sasl.client.callback.handler.class", _JAVA_CLASS),
    _refused("sasl.login.class", _JAVA_CLASS),
    _refused(
        "sasl.oauthbearer.jwt.retriever.class",
        f"{_JAVA_CLASS}; {_CALLBACK}",
        allowed=[f"{_OF_KAFKA}.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File")],
    ),
    _no_effect("sasl.oauthbearer.jwt.validator.class", _OF_BROKERS),
    *(_no_effect(f"sasl.oauthbearer.{name}", _OF_BROKERS) for name in (
        "clock.skew.seconds", "expected.audience", "expected.issuer", "jwks.endpoint.refresh.ms",
        "jwks.endpoint.retry.backoff.max.ms", "jwks.endpoint.retry.backoff.ms", "jwks.endpoint.url", "scope.claim.name",
        "sub.claim.name",
    )),
    *(_refused(f"sasl.oauthbearer.assertion.{name}", _ASSERTION, is_secret="private" in name) for name in (
        "algorithm", "claim.aud", "claim.exp.seconds", "claim.iss", "claim.jti.include", "claim.nbf.seconds",
        "claim.sub", "file", "jwt.template.file", "private.key.file", "private.key.passphrase", "private.key.pem",
        "template.file",
    )),
    *(_no_effect(f"sasl.login.refresh.{name}", _REFRESH) for name in (
        "buffer.seconds", "min.period.seconds", "window.factor", "window.jitter",
    )),
    *(_no_effect(f"sasl.login.retry.backoff.{name}", _RETRY) for name in ("max.ms", "ms")),
    *(_no_effect(f"sasl.login.{name}.timeout.ms", "socket.connection.setup.timeout.ms limits token requests, too")
      for name in ("connect", "read")),
    *(_no_effect(f"sasl.kerberos.{name}", _KERBEROS) for name in (
        "keytab", "kinit.cmd", "min.time.before.relogin", "principal", "service.name", "ticket.renew.jitter",
        "ticket.renew.window.factor",
    )),
)  # fmt: skip

_TLS: Final = (
    _used("ssl.ca.location", "PEM file or directory of trusted authorities", default="the system's"),
    _used("ssl.ca.pem", "the same, inline"),
    _used("ssl.truststore.type", "PEM; Java's other stores are refused", default="JKS"),
    _used("ssl.truststore.location", "Java's name of ssl.ca.location"),
    _used("ssl.truststore.certificates", "Java's name of ssl.ca.pem"),
    _used("ssl.certificate.location", "PEM file with the client's certificate and its chain"),
    _used("ssl.certificate.pem", "the same, inline"),
    _used("ssl.key.location", "PEM file with the client's private key", default="ssl.certificate.location"),
    _used("ssl.key.pem", "the same, inline", is_secret=True),
    _used("ssl.key.password", "password of an encrypted private key", is_secret=True),
    _used("ssl.keystore.type", "PEM; Java's other stores are refused", default="JKS"),
    _used("ssl.keystore.location", "Java's name of a PEM file with both key and certificates"),
    _used("ssl.keystore.key", "Java's name of ssl.key.pem", is_secret=True),
    _used("ssl.keystore.certificate.chain", "Java's name of ssl.certificate.pem"),
    _used("ssl.crl.location", "PEM file of revoked certificates; the broker's certificate is checked against it"),
    _used("ssl.cipher.suites", "OpenSSL's names of cipher suites for TLS 1.2", default="OpenSSL's"),
    _used("ssl.protocol", "TLS or TLSv1.3 for 1.2 and 1.3, TLSv1.2 for that version only", default="TLS"),
    _used("ssl.enabled.protocols", "TLSv1.2, TLSv1.3 or both", default="TLSv1.2,TLSv1.3"),
    _used("ssl.endpoint.identification.algorithm", "https, or none to accept every host name", default="https"),
    _used(
        "enable.ssl.certificate.verification",
        "whether to check the broker's certificate",
        type="true or false",
        default="true",
    ),
    _no_effect("ssl.keystore.password", _PEM_ONLY, is_secret=True),
    _no_effect("ssl.truststore.password", _PEM_ONLY, is_secret=True),
    *(_no_effect(f"ssl.{name}", "it configures the JVM; OpenSSL is used here") for name in (
        "keymanager.algorithm", "provider", "secure.random.implementation", "trustmanager.algorithm",
    )),
    *(_refused(f"ssl.{name}.list", "Python's ssl module cannot set it; leave the key out, or restrict the broker")
      for name in ("curves", "sigalgs")),
    _refused("ssl.ca.certificate.stores", "name a PEM file in ssl.ca.location", allowed=["Root"]),
    _refused("ssl.engine.location", "OpenSSL engines are not used; name PEM files instead"),
    _refused("ssl.engine.id", "OpenSSL engines are not used; leave the key out", allowed=["dynamic"]),
    _refused("ssl.providers", "OpenSSL's own configuration file chooses its providers; leave the key out"),
    _refused("ssl.engine.factory.class", _JAVA_CLASS),
    _refused("security.providers", _JAVA_CLASS),
    *(_refused(name, _OF_C) for name in (
        "ssl.certificate.verify_cb", "ssl_ca", "ssl_certificate", "ssl_engine_callback_data", "ssl_key",
    )),
)  # fmt: skip

SECURITY_KEYS: Final = {key.name: key for key in (*_SASL, *_TLS)}


def is_secret(name: str) -> bool:
    """Return whether the value of this key must never be shown: its row in the table says so, or it has no row.

    An unknown name may be a misspelt secret key, so unknown security keys count as secrets.
    """
    known = SECURITY_KEYS.get(name)
    return is_security_key(name) if known is None else known.is_secret


def is_security_key(name: str) -> bool:
    """Return whether this is the name of a security key, known or unknown."""
    return name in SECURITY_KEYS or name.startswith(("ssl.", "ssl_", "sasl.", "https.", "security."))
