"""TLS settings, tested with real handshakes."""

import socket
import ssl
import threading

import pytest

from tests.unit.client.certificates import Authority
from tests.unit.client.fake_cluster import FakeCluster
from tidemill.client import connection_settings
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.connection_settings import Endpoint
from tidemill.client.failures import BrokerUnreachable, SettingsError
from tidemill.wire.messages import metadata


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker_pair(authority):
    return authority.issue("broker")


@pytest.fixture(scope="module")
def client_pair(authority):
    return authority.issue("client")


def server(pair, **asked):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    for name, value in asked.items():
        setattr(context, name, value)
    return context


def topics(cluster, **keys):
    settings = cluster.settings(security_protocol="SSL", **keys)
    connection = BrokerConnection(settings.bootstrap[0], settings)
    try:
        return [one.name for one in connection.request(metadata.API, metadata.Request(topics=None)).topics]
    finally:
        connection.close()


@pytest.fixture
def cluster(broker_pair):
    with FakeCluster(tls=server(broker_pair)) as running:
        yield running


@pytest.fixture
def strict_cluster(broker_pair, authority):
    """Yield a cluster that requires client certificates."""
    context = server(broker_pair, verify_mode=ssl.CERT_REQUIRED)
    context.load_verify_locations(authority.location)
    with FakeCluster(tls=context) as running:
        yield running


def one_line(pem):
    return " ".join(pem.split("\n"))


def escaped(pem):
    return pem.replace("\n", "\\n")


@pytest.mark.parametrize("written", [str, one_line, escaped], ids=["lines", "one line", "escaped line breaks"])
@pytest.mark.parametrize("key", ["ssl_ca_pem", "ssl_truststore_certificates"])
def test_trusted_authorities_may_be_inline(cluster, authority, key, written):
    """
    ssl.ca.pem and ssl.truststore.certificates contain trusted authorities as PEM text: with line breaks, on one line,
    or with escaped line breaks.
    """
    assert ["t"] == topics(cluster, **{key: written(authority.pair.certificate.read_text())})


def test_trusted_authorities_may_be_a_directory(cluster, authority, tmp_path):
    """
    ssl.ca.location may name a directory in OpenSSL's format.
    """
    assert ["t"] == topics(cluster, ssl_ca_location=str(authority.in_directory(tmp_path)))


def test_a_client_certificate_from_files(strict_cluster, authority, client_pair):
    """
    A client presents its certificate.  Its private key is encrypted, and the password comes from a setting.
    """
    key = authority.encrypted(client_pair.key, "hunter2")
    files = {"ssl_certificate_location": str(client_pair.certificate), "ssl_key_location": str(key)}

    found = topics(strict_cluster, ssl_ca_location=authority.location, ssl_key_password="hunter2", **files)

    assert ["t"] == found


@pytest.mark.parametrize(
    ("certificate", "key"),
    [("ssl_certificate_pem", "ssl_key_pem"), ("ssl_keystore_certificate_chain", "ssl_keystore_key")],
    ids=["librdkafka", "Java"],
)
@pytest.mark.parametrize("written", [str, one_line], ids=["lines", "one line"])
def test_a_client_certificate_inline(strict_cluster, authority, client_pair, certificate, key, written):
    """
    The certificate and the encrypted key may be given as PEM text in the settings.
    """
    encrypted = authority.encrypted(client_pair.key, "hunter2").read_text()
    inline = {certificate: written(client_pair.certificate.read_text()), key: written(encrypted)}

    found = topics(strict_cluster, ssl_ca_location=authority.location, ssl_key_password="hunter2", **inline)

    assert ["t"] == found


@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_wrong_key_password_is_one_sentence(strict_cluster, authority, client_pair, password):
    """
    A key whose password is wrong or missing raises an error that shows neither key nor password, and there is no
    password prompt on the terminal.
    """
    key = authority.encrypted(client_pair.key, "hunter2").read_text()
    given = {} if password is None else {"ssl_key_password": password}

    with pytest.raises(SettingsError, match=r"cannot load the client's certificate .* its key ssl.key.pem") as refused:
        topics(strict_cluster, ssl_certificate_location=str(client_pair.certificate), ssl_key_pem=key, **given)

    assert "wrong" not in str(refused.value)
    assert key.split("\n")[1] not in str(refused.value)


def test_a_missing_client_certificate_is_named(strict_cluster, authority):
    """
    A broker that requires a client certificate refuses a client without one; the error names the setting.  There are
    two possible errors, because the broker's alert may be lost when it closes the connection.
    """
    refused = r"refuses the client's certificate: .*; check ssl.certificate.location"
    lost = r"failed: .*; if it needs a client certificate, set ssl.certificate.location"

    with pytest.raises((SettingsError, BrokerUnreachable), match=f"{refused}|{lost}"):
        topics(strict_cluster, ssl_ca_location=authority.location)


def test_a_broker_with_another_name_is_refused(authority):
    """
    A certificate for another host is refused, unless ssl.endpoint.identification.algorithm is none.
    """
    with FakeCluster(tls=server(authority.issue("other", "DNS:other.example"))) as cluster:
        with pytest.raises(SettingsError, match=r"is not trusted: .*mismatch.*; check bootstrap.servers and"):
            topics(cluster, ssl_ca_location=authority.location)
        found = topics(
            cluster, ssl_ca_location=authority.location, ssl_endpoint_identification_algorithm="none"
        )  # fmt: skip

    assert ["t"] == found


def test_an_unverified_certificate_is_accepted_on_demand(cluster):
    """
    With enable.ssl.certificate.verification=false, any certificate is accepted.
    """
    assert ["t"] == topics(cluster, enable_ssl_certificate_verification="false")


def test_a_revoked_certificate_is_refused(cluster, authority, broker_pair):
    """
    ssl.crl.location names the list of revoked certificates; with an empty list, the broker is accepted.
    """
    empty = topics(cluster, ssl_ca_location=authority.location, ssl_crl_location=str(authority.revoke()))
    revoked = authority.revoke(broker_pair)

    with pytest.raises(SettingsError, match="is not trusted: certificate revoked"):
        topics(cluster, ssl_ca_location=authority.location, ssl_crl_location=str(revoked))

    assert ["t"] == empty


@pytest.mark.parametrize(
    ("keys", "version"),
    [
        ({}, "TLSv1.3"),
        ({"ssl_protocol": "TLSv1.3"}, "TLSv1.3"),
        ({"ssl_protocol": "TLSv1.2"}, "TLSv1.2"),
        ({"ssl_enabled_protocols": "TLSv1.2"}, "TLSv1.2"),
        ({"ssl_enabled_protocols": "TLSv1.2, TLSv1.3", "ssl_protocol": "TLS"}, "TLSv1.3"),
    ],
)
def test_the_versions_of_tls_are_chosen(cluster, authority, keys, version):
    """
    The keys of Java's clients for TLS versions determine the version of a connection.
    """
    settings = cluster.settings(security_protocol="SSL", ssl_ca_location=authority.location, **keys)

    connection = BrokerConnection(settings.bootstrap[0], settings)
    spoken = connection._socket.version()
    connection.close()

    assert version == spoken


def test_the_cipher_suites_are_chosen(cluster, authority):
    """
    ssl.cipher.suites restricts the cipher suites of TLS 1.2.  The list may be separated by commas, as in librdkafka.
    """
    suites = "ECDHE-ECDSA-AES128-GCM-SHA256, ECDHE-RSA-AES128-GCM-SHA256"
    keys = {"ssl_protocol": "TLSv1.2", "ssl_cipher_suites": suites}
    settings = cluster.settings(security_protocol="SSL", ssl_ca_location=authority.location, **keys)

    connection = BrokerConnection(settings.bootstrap[0], settings)
    chosen = connection._socket.cipher()
    connection.close()

    assert "ECDHE-ECDSA-AES128-GCM-SHA256" == chosen[0]


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"ssl.protocol": "TLSv1.1"}, "ssl.protocol=TLSv1.1 is not supported: use TLS, TLSv1.2 or TLSv1.3"),
        (
            {"ssl.enabled.protocols": "SSLv3"},
            "ssl.enabled.protocols=SSLv3 is not supported: use TLSv1.2,TLSv1.3 or one",
        ),
        ({"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"}, "have no version in common"),
        (
            {"ssl.key.pem": "hunter2"},
            "ssl.key.pem is set but ssl.certificate.location is not: set the key's certificate",
        ),
        ({"ssl.certificate.pem": "x", "ssl.certificate.location": "/c"}, "are both set: remove one"),
        (
            {"ssl.keystore.location": "/k.jks"},
            "is a JKS store, which only Java can read: export it as PEM: keytool -importkeystore -srckeystore /k.jks "
            "-destkeystore store.p12 -deststoretype PKCS12; openssl pkcs12 -in store.p12 -out client.pem -nodes; then",
        ),
        (
            {"ssl.keystore.location": "/k.p12"},
            "is a PKCS12 store, .*: openssl pkcs12 -in /k.p12 -out client.pem -nodes;",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_fix(keys, sentence):
    """
    If a TLS setting is not supported, the error names the key and says what to write instead.
    """
    with pytest.raises(SettingsError, match=sentence) as refused:
        connection_settings.from_keys({"bootstrap.servers": "b:1", "security.protocol": "SSL", **keys})

    assert "hunter2" not in str(refused.value)


def test_a_broker_without_tls_is_one_sentence():
    """
    If a client uses TLS on a port without TLS, the error names security.protocol.
    """
    with FakeCluster() as cluster, pytest.raises((SettingsError, BrokerUnreachable), match=r"security.protocol"):
        topics(cluster)


@pytest.mark.parametrize(
    ("bytes_sent", "failure", "sentence"),
    [
        (
            b"\x15\x03\x03\x00\x02\x02\x50",
            SettingsError,
            "speaks TLS on this port: set security.protocol=SSL or SASL_SSL",
        ),
        (b"", BrokerUnreachable, "if this listener needs TLS or SASL, set security.protocol"),
    ],
    ids=["an alert", "nothing"],
)
def test_a_client_without_tls_learns_that_it_may_be_missing(bytes_sent, failure, sentence):
    """
    A port with TLS sends an alert to a client without TLS, or closes the connection; in both cases, the error names
    security.protocol.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connected, _ = listener.accept()
            with connected:
                connected.recv(1000)
                connected.sendall(bytes_sent)

        thread = threading.Thread(target=answer)
        thread.start()
        with FakeCluster() as cluster, pytest.raises(failure, match=sentence):
            BrokerConnection(Endpoint(*listener.getsockname()), cluster.settings())
        thread.join(5)
