"""
OAuth tokens from a token endpoint, from a file, and unsigned ones; the endpoint is an HTTPS server in this process.
"""

import json
import ssl
import threading
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest

from tests.unit.client.certificates import Authority
from tidemill.client import oauth_token
from tidemill.client.failures import BrokerUnreachable, SettingsError
from tidemill.client.oauth_token import TokenRequest, UnsignedToken, token


class Endpoint(HTTPServer):
    """Answers every request with the status and the body that the test has set."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.status, self.body = 200, b""
        self.requests: list[tuple[str, str, dict[str, list[str]]]] = []  # path, header Authorization, form

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not print the errors of clients that reject the certificate."""


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.requests.append((self.path, self.headers["Authorization"], form))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", f"https://127.0.0.1:{self.server.server_port}/elsewhere")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST  # noqa: N815 - the name that the library calls

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to stderr."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def context(authority):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*authority.issue("endpoint"))
    return made


@pytest.fixture
def endpoint(context, monkeypatch):
    monkeypatch.setattr(oauth_token, "_kept", {})
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Endpoint(context) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(5)


def request(endpoint, authority, **changes):
    usual = {"client_id": "me", "client_secret": "hunter2", "scope": "kafka", "ca_location": authority.location}
    return TokenRequest(**{"url": f"https://127.0.0.1:{endpoint.server_port}/token?key=hunter2", **usual, **changes})


def answer(endpoint, **fields):
    endpoint.body = json.dumps(fields).encode()


def jwt(**claims):
    parts = (json.dumps(part).encode() for part in ({"alg": "RS256"}, claims))
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + ".signature"


def test_a_token_is_requested_and_kept(endpoint, authority):
    """
    Client id and secret are sent as RFC 6749 specifies, and the token is reused for most of its lifetime.
    """
    answer(endpoint, access_token="abc", expires_in=600)
    wanted = request(endpoint, authority)

    tokens = [token(wanted, 5), token(wanted, 5)]

    basic = "Basic " + b64encode(b"me:hunter2").decode()
    form = {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert (["abc", "abc"], [("/token?key=hunter2", basic, form)]) == (tokens, endpoint.requests)


def test_a_token_is_renewed_when_most_of_its_lifetime_has_passed(endpoint, authority, monkeypatch):
    """
    A new token is requested when four fifths of the lifetime have passed, even if only the token itself contains the
    lifetime.
    """
    wanted = request(endpoint, authority)
    answer(endpoint, access_token=jwt(exp=time.time() + 1_000))
    first = token(wanted, 5)
    answer(endpoint, access_token="second", expires_in=600)
    start = time.monotonic()

    found = []
    for seconds in (790, 810):
        monkeypatch.setattr(oauth_token.time, "monotonic", lambda seconds=seconds: start + seconds)
        found.append(token(wanted, 5))

    assert [first, "second"] == found


def test_a_refused_token_is_not_kept(endpoint, authority):
    """
    After a broker has refused a token, the next login requests a new one.
    """
    wanted = request(endpoint, authority)
    answer(endpoint, access_token="abc", expires_in=600)
    token(wanted, 5)

    oauth_token.forget(wanted)
    token(wanted, 5)

    assert 2 == len(endpoint.requests)


def test_special_characters_may_be_url_encoded(endpoint, authority):
    """
    With sasl.oauthbearer.header.urlencode, client id and secret are URL-encoded first, as RFC 6749 requires.
    """
    answer(endpoint, access_token="abc")

    token(request(endpoint, authority, client_id="a:b", client_secret="c%/", is_url_encoded=True), 5)

    assert "Basic " + b64encode(b"a%3Ab:c%25%2F").decode() == endpoint.requests[0][1]


@pytest.mark.parametrize(
    ("status", "body", "failure", "sentence"),
    [
        (401, b'{"error":"invalid_client"}', SettingsError, "status 401, invalid_client; check the URL, the client id"),
        (400, b"no JSON", SettingsError, "refuses the client of sasl.oauthbearer.client.id: status 400; check"),
        (302, b"", SettingsError, "status 302"),
        (503, b"", BrokerUnreachable, "responds with status 503"),
        (429, b"", BrokerUnreachable, "responds with status 429"),
        (200, b"<html>", SettingsError, "responds without access_token: check the URL"),
        (200, b'{"access_token": "a b"}', SettingsError, "responds without access_token"),
        (200, b'["access_token"]', SettingsError, "responds without access_token"),
    ],
)
def test_a_failed_request_is_one_sentence_without_secrets(endpoint, authority, status, body, failure, sentence):
    """
    If a token request fails, the type of the error says whether a retry may succeed.  The error contains the URL
    without its query, and no secret.  A redirect is not followed, because it could send the secret to another address.
    """
    endpoint.status, endpoint.body = status, body

    with pytest.raises(failure, match=sentence) as failed:
        token(request(endpoint, authority), 5)

    shown = f"sasl.oauthbearer.token.endpoint.url=https://127.0.0.1:{endpoint.server_port}/token"
    assert str(failed.value).startswith(shown)
    assert "hunter2" not in str(failed.value)
    assert 1 == len(endpoint.requests)


def test_an_untrusted_endpoint_is_named(endpoint, authority):
    """
    The client secret is sent only to a trusted endpoint; the error names the key to set.
    """
    with pytest.raises(SettingsError, match=r"is not trusted: .*check https.ca.location"):
        token(request(endpoint, authority, ca_location=None), 5)

    assert [] == endpoint.requests


def test_an_endpoint_that_is_away_may_come_back(endpoint, authority):
    """
    An endpoint that does not accept connections causes a retriable failure.
    """
    wanted = request(endpoint, authority)
    endpoint.server_close()

    with pytest.raises(BrokerUnreachable, match="does not respond: "):
        token(wanted, 0.5)


def test_a_token_in_a_file_is_read_for_each_login(tmp_path):
    """
    With a file URL, each login reads the token from the file, in which another program renews it.
    """
    path = tmp_path / "token"
    wanted = TokenRequest(url=f"file://{path}")
    path.write_text("one\n")

    first = token(wanted, 5)
    path.write_text("two")

    assert ("one", "two") == (first, token(wanted, 5))


@pytest.mark.parametrize("content", [None, "", "two words", "\u00fc"])
def test_a_file_without_token_is_named(tmp_path, content):
    """
    If the token file is missing or does not contain a token, the error names the file and its setting.
    """
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)

    with pytest.raises(SettingsError, match=rf"token.endpoint.url=file://{path}: the file"):
        token(TokenRequest(url=f"file://{path}"), 5)


def test_an_unsigned_token_has_the_claims_of_librdkafka():
    """
    An unsigned token contains the algorithm `none`, the principal, the scope, and the start and end of its validity.
    """
    source = UnsignedToken(principal="alice", principal_claim="user", scope=("a", "b"), lifetime_s=60)

    header, payload, signature = token(source, 5).split(".")

    claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    issued_at = claims.pop("iat")
    assert {"user": "alice", "scope": ["a", "b"], "exp": issued_at + 60} == claims
    assert ({"alg": "none"}, "") == (json.loads(urlsafe_b64decode(header + "==")), signature)
    assert abs(issued_at - time.time()) < 60
