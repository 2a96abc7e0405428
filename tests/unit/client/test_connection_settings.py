"""Kafka's keys as connection settings.  Unsupported values are refused, and the error says what to write instead."""

import pytest

from tidemill.client import connection_settings
from tidemill.client.connection_settings import Endpoint
from tidemill.client.failures import SettingsError

AT = {"bootstrap.servers": "b:1"}


def test_bootstrap_servers_are_parsed_as_in_kafka():
    """
    bootstrap.servers may contain several servers, spaces, listener names, bracketed IPv6 addresses, and servers without
    a port.
    """
    settings = connection_settings.from_keys({"bootstrap.servers": "a:1, PLAINTEXT://b:2,[::1]:3,c"})

    assert (Endpoint("a", 1), Endpoint("b", 2), Endpoint("::1", 3), Endpoint("c", 9092)) == settings.bootstrap


def test_equal_settings_have_equal_hashes():
    """
    Equal settings have equal hashes, because a Spark worker caches its connections under their settings.
    """
    assert hash(connection_settings.from_keys(AT)) == hash(connection_settings.from_keys(dict(AT)))


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"security.protocol": "SASL_SSL"}, "security.protocol=SASL_SSL is not supported: use PLAINTEXT or SSL"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "security.protocol=SASL_PLAINTEXT is not supported"),
        ({"sasl.jaas.config": "x"}, "sasl.jaas.config is not supported"),
        ({"isolation.level": "serializable"}, "use read_uncommitted or read_committed"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms=soon must be a whole number"),
        ({"bootstrap.servers": "host:port"}, "'host:port' is not HOST:PORT"),
        ({"bootstrap.servers": " , "}, "has no broker"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/t.jks"},
            "ssl.truststore.location=/t.jks is a JKS store, which only Java can read: export it as PEM: keytool",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/k.p12", "ssl.keystore.type": "PKCS12"},
            "ssl.keystore.location=/k.p12 is a PKCS12 store",
        ),
        ({"security.protocol": "SSL", "ssl.key.location": "/k.pem"}, "ssl.certificate.location is not"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "x"}, "ssl.cipher.suites is not supported"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "dns"},
            "use https or none",
        ),
    ],
)
def test_an_unsupported_setting_is_refused_with_the_fix(keys, sentence):
    """
    The error names the key, the value, and what to write instead.
    """
    with pytest.raises(SettingsError) as refused:
        connection_settings.from_keys({**AT, **keys})

    assert sentence in str(refused.value)


def test_java_and_librdkafka_names_of_pem_files_mean_the_same():
    """
    PEM files can be set with the keys of Java's client or those of librdkafka, so that users can keep their settings.
    """
    ours = {"ssl.ca.location": "/ca.pem", "ssl.certificate.location": "/c.pem"}
    javas = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/c.pem",
    }

    read = [connection_settings.from_keys({**AT, "security.protocol": "ssl", **keys}).tls for keys in (ours, javas)]

    assert read[0] == read[1]


def test_a_password_is_never_printed():
    """
    The repr of the settings does not contain the password, because Spark shows options in plans and logs.
    """
    tls = {"security.protocol": "SSL", "ssl.certificate.location": "/c", "ssl.key.password": "hunter2"}

    assert "hunter2" not in repr(connection_settings.from_keys({**AT, **tls}))


def test_a_misspelt_key_is_found():
    """
    `unknown_keys` returns a misspelt key, so that the Spark source can log a warning.
    """
    assert ("fetch.max.byte",) == connection_settings.unknown_keys({**AT, "fetch.max.byte": "1", "group.id": "g"})
