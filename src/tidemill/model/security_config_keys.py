"""Broker configuration keys for TLS, SASL, delegation tokens and authorization.

A setting that requests a security feature is refused, not ignored, as long as the feature is not implemented.
"""

from typing import Final

from tidemill.model.config_key import JAVA, ConfigKey, refused, without_effect
from tidemill.model.config_types import ConfigType

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
SHORT = ConfigType.SHORT
LONG = ConfigType.LONG
DOUBLE = ConfigType.DOUBLE
LIST = ConfigType.LIST
CLASS = ConfigType.CLASS
PASSWORD = ConfigType.PASSWORD
NO_TLS: Final = "TLS listeners are not implemented yet, and clear text in their place would be unsafe"
NO_SASL: Final = "authentication is not implemented yet, and a listener without it would be unsafe"

SECURITY_KEYS: Final[tuple[ConfigKey, ...]] = (
    refused("authorizer.class.name", STRING, "", JAVA),
    refused("connections.max.reauth.ms", LONG, 0, NO_SASL),
    refused("delegation.token.secret.key", PASSWORD, None, "delegation tokens are not implemented yet"),
    refused(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        JAVA,
    ),
    refused("sasl.client.callback.handler.class", CLASS, None, NO_SASL),
    refused("sasl.enabled.mechanisms", LIST, ("GSSAPI",), NO_SASL),
    refused("sasl.jaas.config", PASSWORD, None, NO_SASL),
    refused("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", NO_SASL),
    refused("sasl.kerberos.min.time.before.relogin", LONG, 60_000, NO_SASL),
    refused("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), NO_SASL),
    refused("sasl.kerberos.service.name", STRING, None, NO_SASL),
    refused("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, NO_SASL),
    refused("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, NO_SASL),
    refused("sasl.login.callback.handler.class", CLASS, None, NO_SASL),
    refused("sasl.login.class", CLASS, None, NO_SASL),
    refused("sasl.login.connect.timeout.ms", INT, None, NO_SASL),
    refused("sasl.login.read.timeout.ms", INT, None, NO_SASL),
    refused("sasl.login.refresh.buffer.seconds", SHORT, 300, NO_SASL),
    refused("sasl.login.refresh.min.period.seconds", SHORT, 60, NO_SASL),
    refused("sasl.login.refresh.window.factor", DOUBLE, 0.8, NO_SASL),
    refused("sasl.login.refresh.window.jitter", DOUBLE, 0.05, NO_SASL),
    refused("sasl.login.retry.backoff.max.ms", LONG, 10_000, NO_SASL),
    refused("sasl.login.retry.backoff.ms", LONG, 100, NO_SASL),
    refused("sasl.mechanism.controller.protocol", STRING, "GSSAPI", NO_SASL),
    refused("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", NO_SASL),
    refused("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", NO_SASL),
    refused("sasl.oauthbearer.assertion.claim.aud", STRING, None, NO_SASL),
    refused("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, NO_SASL),
    refused("sasl.oauthbearer.assertion.claim.iss", STRING, None, NO_SASL),
    refused("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, NO_SASL),
    refused("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, NO_SASL),
    refused("sasl.oauthbearer.assertion.claim.sub", STRING, None, NO_SASL),
    refused("sasl.oauthbearer.assertion.file", STRING, None, NO_SASL),
    refused("sasl.oauthbearer.assertion.private.key.file", STRING, None, NO_SASL),
    refused("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, NO_SASL),
    refused("sasl.oauthbearer.assertion.template.file", STRING, None, NO_SASL),
    refused("sasl.oauthbearer.client.credentials.client.id", STRING, None, NO_SASL),
    refused("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, NO_SASL),
    refused("sasl.oauthbearer.clock.skew.seconds", INT, 30, NO_SASL),
    refused("sasl.oauthbearer.expected.audience", LIST, (), NO_SASL),
    refused("sasl.oauthbearer.expected.issuer", STRING, None, NO_SASL),
    refused("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, NO_SASL),
    refused("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, NO_SASL),
    refused("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, NO_SASL),
    refused("sasl.oauthbearer.jwks.endpoint.url", STRING, None, NO_SASL),
    refused(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        NO_SASL,
    ),
    refused(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        NO_SASL,
    ),
    refused("sasl.oauthbearer.scope", STRING, None, NO_SASL),
    refused("sasl.oauthbearer.scope.claim.name", STRING, "scope", NO_SASL),
    refused("sasl.oauthbearer.sub.claim.name", STRING, "sub", NO_SASL),
    refused("sasl.oauthbearer.token.endpoint.url", STRING, None, NO_SASL),
    refused("sasl.server.callback.handler.class", CLASS, None, NO_SASL),
    refused("sasl.server.max.receive.size", INT, 524_288, NO_SASL),
    refused(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "brokers use a protocol of their own, authenticated with tidemill.cluster.key and not encrypted",
    ),
    refused("security.providers", STRING, None, JAVA),
    refused("ssl.allow.dn.changes", BOOLEAN, False, NO_TLS),
    refused("ssl.allow.san.changes", BOOLEAN, False, NO_TLS),
    refused("ssl.cipher.suites", LIST, (), NO_TLS),
    refused("ssl.client.auth", STRING, "none", NO_TLS),
    refused(
        "ssl.enabled.protocols",
        LIST,
        (
            "TLSv1.2",
            "TLSv1.3",
        ),
        NO_TLS,
    ),
    refused("ssl.endpoint.identification.algorithm", STRING, "https", NO_TLS),
    refused("ssl.engine.factory.class", CLASS, None, NO_TLS),
    refused("ssl.key.password", PASSWORD, None, NO_TLS),
    refused("ssl.keymanager.algorithm", STRING, "SunX509", NO_TLS),
    refused("ssl.keystore.certificate.chain", PASSWORD, None, NO_TLS),
    refused("ssl.keystore.key", PASSWORD, None, NO_TLS),
    refused("ssl.keystore.location", STRING, None, NO_TLS),
    refused("ssl.keystore.password", PASSWORD, None, NO_TLS),
    refused("ssl.keystore.type", STRING, "JKS", NO_TLS),
    refused("ssl.principal.mapping.rules", STRING, "DEFAULT", NO_TLS),
    refused("ssl.protocol", STRING, "TLSv1.3", NO_TLS),
    refused("ssl.provider", STRING, None, NO_TLS),
    refused("ssl.secure.random.implementation", STRING, None, NO_TLS),
    refused("ssl.trustmanager.algorithm", STRING, "PKIX", NO_TLS),
    refused("ssl.truststore.certificates", PASSWORD, None, NO_TLS),
    refused("ssl.truststore.location", STRING, None, NO_TLS),
    refused("ssl.truststore.password", PASSWORD, None, NO_TLS),
    refused("ssl.truststore.type", STRING, "JKS", NO_TLS),
    without_effect("connection.failed.authentication.delay.ms", INT, 100, NO_SASL, at_least=0),
    without_effect(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3_600_000,
        "delegation tokens are not implemented yet",
        at_least=1,
    ),
    without_effect(
        "delegation.token.expiry.time.ms", LONG, 86_400_000, "delegation tokens are not implemented yet", at_least=1
    ),
    without_effect(
        "delegation.token.max.lifetime.ms", LONG, 604_800_000, "delegation tokens are not implemented yet", at_least=1
    ),
)
