"""Kafka's keys as connection settings.  Unsupported values are refused, and the error says what to write instead."""

import pickle

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
        (
            {"security.protocol": "TLS"},
            "security.protocol=TLS is unknown: use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        ),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not set: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OA"),
        ({"sasl.login.class": "com.example.L"}, "sasl.login.class=com.example.L is not supported: a Java class cannot"),
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
        ({"security.protocol": "SSL", "ssl.cipher.suites": "x"}, "ssl.cipher.suites=x has no suite of TLS 1.2"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "dns"},
            "use https or none",
        ),
    ],
)
def test_an_unsupported_setting_is_refused_with_the_fix(keys, sentence):
    """
    If a setting is not supported, the error names the key and the value, and says what to write instead.
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


SECRETS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "hunter2",
    "ssl.certificate.location": "/c",
    "ssl.key.password": "hunter2",
    "ssl.key.pem": "hunter2",
}
OF_A_TOKEN_ENDPOINT = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://h/t",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "hunter2",
}
JAAS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": 'x.ScramLoginModule required username="alice" password="hunter2";',
}


@pytest.mark.parametrize("keys", [SECRETS, OF_A_TOKEN_ENDPOINT, JAAS], ids=["password", "token", "JAAS"])
def test_a_literal_secret_is_never_printed(keys):
    """
    The repr of the settings contains no secret, because Spark shows options in plans and logs.
    """
    assert "hunter2" not in repr(connection_settings.from_keys({**AT, **keys}))


@pytest.mark.parametrize("keys", [SECRETS, OF_A_TOKEN_ENDPOINT, JAAS], ids=["password", "token", "JAAS"])
def test_a_reference_is_pickled_instead_of_the_secret(keys, monkeypatch):
    """
    Settings with references are pickled with the references only, and each process resolves them itself.
    """
    names = {f"V{number}": key for number, key in enumerate(keys)}
    for name, key in names.items():
        monkeypatch.setenv(name, keys[key])
    settings = connection_settings.from_keys({**AT, **{key: f"env:{name}" for name, key in names.items()}})

    pickled = pickle.dumps(settings)
    resolved = pickle.loads(pickled).resolved()  # noqa: S301 - bytes of this test

    assert connection_settings.from_keys({**AT, **keys}) == resolved
    assert b"hunter2" not in pickled
    assert "hunter2" not in repr(settings) + repr(resolved)


@pytest.mark.parametrize("servers", ["b:1", "env:SERVERS"])
def test_settings_keep_that_the_cluster_was_reached(servers, monkeypatch):
    """
    Pickled settings remember that the cluster has been reached; Spark pickles them for tasks, and each task resolves
    references.
    """
    monkeypatch.setenv("SERVERS", "b:1")
    settings = connection_settings.from_keys({"bootstrap.servers": servers})

    kept = pickle.loads(pickle.dumps(settings.reached())).resolved()  # noqa: S301 - bytes of this test

    assert (False, True) == (settings.resolved().was_reached, kept.was_reached)


def test_a_literal_secret_beside_a_reference_is_never_printed():
    """
    The repr of settings contains no literal secret, even if the settings also contain references that are not resolved
    yet.
    """
    assert "hunter2" not in repr(connection_settings.from_keys({**AT, **SECRETS, "sasl.username": "env:USER"}))


def test_every_setting_may_be_a_reference(monkeypatch):
    """
    Any setting, such as an address or a number, may be a reference; an invalid value is reported when the reference is
    resolved.
    """
    monkeypatch.setenv("SERVERS", "b:1")
    monkeypatch.setenv("TIMEOUT", "7")
    settings = connection_settings.from_keys({"bootstrap.servers": "env:SERVERS", "request.timeout.ms": "env:TIMEOUT"})

    resolved = settings.resolved()
    monkeypatch.setenv("TIMEOUT", "hunter2")

    assert ((Endpoint("b", 1),), 7) == (resolved.bootstrap, resolved.request_timeout_ms)
    with pytest.raises(SettingsError, match=r"request.timeout.ms=env:TIMEOUT must be a whole number"):
        settings.resolved()


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"ssl.engine.location": "/e"}, "ssl.engine.location=/e is not supported"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms=soon must be a whole number"),
    ],
)
def test_literal_values_beside_references_are_checked_at_once(keys, sentence):
    """
    Settings that can be checked without resolving references are refused before any connection is opened.
    """
    with pytest.raises(SettingsError, match=sentence):
        connection_settings.from_keys({**AT, "sasl.password": "env:NO_SUCH", **keys})


def test_a_wrong_address_from_a_reference_shows_the_reference(monkeypatch):
    """
    An error about a value that comes from a reference shows the reference instead of the value.
    """
    monkeypatch.setenv("SERVERS", "hunter2:port")

    with pytest.raises(SettingsError) as refused:
        connection_settings.from_keys({"bootstrap.servers": "env:SERVERS"}).resolved()

    assert "bootstrap.servers=env:SERVERS is not HOST:PORT" == str(refused.value)


def test_a_misspelt_key_is_found():
    """
    `unknown_keys` returns a misspelt key, so that the Spark source can log a warning.
    """
    assert ("fetch.max.byte",) == connection_settings.unknown_keys({**AT, "fetch.max.byte": "1", "group.id": "g"})
    assert ("ssl.key.pasword",) == connection_settings.unknown_keys({**AT, "ssl.key.pasword": "x"})
