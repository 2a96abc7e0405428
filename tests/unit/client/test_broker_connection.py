"""Connections use TLS, and servers that are not Kafka brokers are refused."""

import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from tests.unit.client.fake_cluster import FakeCluster
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.connection_settings import Endpoint
from tidemill.client.failures import BrokerUnreachable, SettingsError
from tidemill.wire.messages import metadata


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Create a self-signed certificate for 127.0.0.1, and return the paths of the certificate and the key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which creates the certificate, is not installed")
    directory = tmp_path_factory.mktemp("tls")
    pair = directory / "cert.pem", directory / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=broker"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(pair[0]), "-keyout", str(pair[1])]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return pair


@pytest.fixture
def tls_cluster(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with FakeCluster(tls=context) as cluster:
        yield cluster


def test_a_broker_with_a_trusted_certificate_is_accepted(tls_cluster, certificate):
    """
    The client connects with TLS to a broker whose certificate is trusted and valid for its host name.
    """
    settings = tls_cluster.settings(security_protocol="SSL", ssl_ca_location=str(certificate[0]))
    connection = BrokerConnection(settings.bootstrap[0], settings)

    answer = connection.request(metadata.API, metadata.Request(topics=None))
    connection.close()

    assert ["t"] == [topic.name for topic in answer.topics]


def test_an_untrusted_certificate_is_refused_without_retry(tls_cluster):
    """
    An untrusted certificate causes an error without a retry, and the error names the key to set.
    """
    settings = tls_cluster.settings(security_protocol="SSL")

    with pytest.raises(SettingsError, match=r"is not trusted: .*check ssl\.ca\.location"):
        BrokerConnection(settings.bootstrap[0], settings)


def test_a_missing_file_is_named(tls_cluster, tmp_path):
    """
    A missing TLS file raises a SettingsError that names it, not a network error.
    """
    settings = tls_cluster.settings(security_protocol="SSL", ssl_ca_location=str(tmp_path / "none.pem"))

    with pytest.raises(SettingsError, match=r"of ssl.ca.location=.*none\.pem: No such file"):
        BrokerConnection(settings.bootstrap[0], settings)


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02ab",
        b"",
    ],
    ids=["HTTP", "a negative size", "a frame without header", "nothing"],
)
def test_a_server_that_is_not_a_broker_is_refused_without_allocating_its_frame(bytes_sent):
    """
    A server that is not a broker is refused before its frame is allocated: read as a size, the start of an HTTP
    response means 1.2 GB.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connected, _ = listener.accept()
            with connected:
                connected.recv(1000)
                connected.sendall(bytes_sent)

        thread = threading.Thread(target=answer)
        thread.start()
        with FakeCluster() as cluster, pytest.raises(BrokerUnreachable):
            BrokerConnection(Endpoint("127.0.0.1", listener.getsockname()[1]), cluster.settings())
        thread.join(5)
