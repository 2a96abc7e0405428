"""One connection: TLS, and brokers that are none."""

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
    """(certificate, key) of 127.0.0.1, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate, and is not installed")
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


def test_a_broker_with_a_trusted_certificate_is_spoken_to(tls_cluster, certificate):
    """
    Through TLS, with its name checked.
    """
    settings = tls_cluster.settings(security_protocol="SSL", ssl_ca_location=str(certificate[0]))
    connection = BrokerConnection(settings.bootstrap[0], settings)

    answer = connection.request(metadata.API, metadata.Request(topics=None))
    connection.close()

    assert ["t"] == [topic.name for topic in answer.topics]


def test_a_certificate_that_nobody_signed_is_refused_at_once(tls_cluster):
    """
    No retry makes it trustworthy; the sentence names the key to set.
    """
    settings = tls_cluster.settings(security_protocol="SSL")

    with pytest.raises(SettingsError, match=r"is not trusted: .*check ssl\.ca\.location"):
        BrokerConnection(settings.bootstrap[0], settings)


def test_a_missing_file_is_named(tls_cluster, tmp_path):
    """
    Not an error of the network.
    """
    settings = tls_cluster.settings(security_protocol="SSL", ssl_ca_location=str(tmp_path / "none.pem"))

    with pytest.raises(SettingsError, match=r"cannot load the TLS files .*none\.pem"):
        BrokerConnection(settings.bootstrap[0], settings)


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x50",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02ab",
        b"",
    ],
    ids=["HTTP", "a TLS alert", "a negative size", "a frame without header", "nothing"],
)
def test_what_is_no_broker_is_told_without_allocating_what_it_claims(bytes_sent):
    """
    Four letters of HTTP read as a frame of 1.2 GB.
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
