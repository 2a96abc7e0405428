"""The table of security keys contains every key of librdkafka and of Java's clients."""

import ctypes
import re
from pathlib import Path

import confluent_kafka
import pytest

from tidemill.client import connection_settings
from tidemill.client.failures import SettingsError
from tidemill.client.security_keys import SECURITY_KEYS, Use, is_secret

# The security keys in ConsumerConfig and ProducerConfig of kafka-clients 4.3.1.
JAVA_KEYS = [
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.mechanism",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "security.providers",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
]
A_SECURITY_KEY = re.compile(r"^(\S*(?:ssl|sasl|oauthbearer)\S*|https\.\S+|security\.\S+)\s*\|", re.MULTILINE)


def librdkafka_keys(path: Path) -> set[str]:
    """Return the security keys that the installed librdkafka prints with its other properties."""
    folder = Path(confluent_kafka.__file__).parent
    found = [*folder.parent.glob("confluent_kafka.libs/librdkafka*.so*"), *folder.glob(".dylibs/librdkafka*.dylib")]
    if not found:
        pytest.skip("this confluent-kafka has no library beside it")
    library, c = ctypes.CDLL(str(found[0])), ctypes.CDLL(None)
    c.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(c.fopen(str(path).encode(), b"w"))
    library.rd_kafka_conf_properties_show(file)
    c.fclose(file)
    return set(A_SECURITY_KEY.findall(path.read_text()))


def test_every_key_of_librdkafka_is_in_the_table(tmp_path):
    """
    Every key that users of confluent-kafka may have set is used, ignored with a reason, or refused with the fix.
    """
    theirs = librdkafka_keys(tmp_path / "properties")

    assert {"sasl.mechanisms", "ssl.ca.pem", "https.ca.pem", "ssl_key", "security.protocol"} <= theirs
    assert set() == theirs - SECURITY_KEYS.keys()


def test_every_key_of_java_is_in_the_table():
    """
    Every key that users of Spark's Kafka connector may have set is used, ignored with a reason, or refused with the
    fix.
    """
    assert [] == [key for key in JAVA_KEYS if key not in SECURITY_KEYS]


@pytest.mark.parametrize("key", [key for key in SECURITY_KEYS.values() if key.use is Use.REFUSED], ids=lambda k: k.name)
def test_a_refused_key_is_named_with_the_fix(key):
    """
    A refused key raises an error with the name of the key and the text of its row in the table, but without the value
    if it is a secret.
    """
    with pytest.raises(SettingsError) as refused:
        connection_settings.from_keys({"bootstrap.servers": "b:1", key.name: "hunter2"})

    shown = "(hidden)" if key.is_secret else "hunter2"
    assert f"{key.name}={shown} is not supported: {key.text}" == str(refused.value)


@pytest.mark.parametrize("key", [key for key in SECURITY_KEYS.values() if key.allowed], ids=lambda key: key.name)
def test_the_usual_value_of_a_refused_key_is_accepted(key):
    """
    A key that is otherwise refused is accepted with its usual value, which changes nothing.
    """
    for value in key.allowed:
        connection_settings.from_keys({"bootstrap.servers": "b:1", key.name: value})


def test_keys_with_secrets_are_known_as_such():
    """
    Every key whose name suggests a secret is treated as one, and so is an unknown security key.
    """
    named = {
        key for key in SECURITY_KEYS if re.search(r"password|passphrase|secret|jaas|private\.key|ssl\.key\.pem", key)
    }

    assert [] == sorted(key for key in named if not is_secret(key))
    assert (True, False) == (is_secret("ssl.key.pasword"), is_secret("request.timeout.ms"))


def test_used_keys_are_read():
    """
    The name of every used key occurs in the code that reads the settings.
    """
    folder = Path(connection_settings.__file__).parent
    code = "".join((folder / f"{name}_settings.py").read_text() for name in ("connection", "sasl", "tls"))
    stores = {"ssl.truststore.type", "ssl.keystore.type"}  # the code composes these names from parts

    unread = {key.name for key in SECURITY_KEYS.values() if key.use is Use.USED and f'"{key.name}"' not in code}

    assert stores == unread
