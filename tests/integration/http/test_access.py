"""The rules of access over HTTP, tried from a second network namespace, and by pages of other sites in Chromium."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from benchmarks.broker import free_port
from tests.integration.cli.command import ENVIRONMENT
from tests.integration.console.browser import CHROMIUM, open_tab
from tests.integration.http.http_client import HttpClient, wait_until_known

TOKEN = "0123456789abcdef0123456789abcdef"
JSON = "application/json"
NETWORK = "10.213.97"
HERE, THERE = f"{NETWORK}.1", f"{NETWORK}.2"  # the addresses of the broker, and of the other namespace


@dataclass(frozen=True)
class Elsewhere:
    """A network namespace that reaches the broker through a link, as another machine does."""

    name: str
    http: str  # the broker's listener

    def status(self, path: str, *options: str, method: str = "GET") -> int:
        """Return the status of a request that curl sends from there."""
        command = ["ip", "netns", "exec", self.name, "curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "-m", "20"]
        answered = subprocess.run(
            [*command, "-X", method, *options, f"http://{self.http}{path}"], capture_output=True, text=True, check=True
        )
        return int(answered.stdout)


@contextmanager
def namespace(name: str) -> Iterator[None]:
    """Make a namespace with a link to this one, or skip the test where that is not allowed."""
    for tool in ("ip", "curl"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing: install the Debian packages iproute2 and curl")

    def ip(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)

    made = ip("netns", "add", name)
    if made.returncode:
        pytest.skip(f"this user may make no network namespace: {made.stderr.strip()}")
    link, peer = f"{name}a", f"{name}b"
    steps = (
        ("link", "add", link, "type", "veth", "peer", "name", peer, "netns", name),
        ("addr", "add", f"{HERE}/24", "dev", link),
        ("link", "set", link, "up"),
        ("-n", name, "addr", "add", f"{THERE}/24", "dev", peer),
        ("-n", name, "link", "set", peer, "up"),
        ("-n", name, "link", "set", "lo", "up"),
    )
    try:
        for step in steps:
            done = ip(*step)
            if done.returncode:
                pytest.skip(f"ip {' '.join(step)}: {done.stderr.strip()}")
        yield
    finally:
        ip("link", "del", link)
        ip("netns", "del", name)


@contextmanager
def broker(directory: Path, *settings: str) -> Iterator[dict[str, Any]]:
    """Run a broker, and yield its ready line."""
    keys = ("broker.id=1", f"log.dirs={directory}", "listeners=PLAINTEXT://127.0.0.1:0", *settings)
    sets = [word for key in keys for word in ("--set", key)]
    command = [sys.executable, "-m", "tidemill", "broker", "--json", *sets]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield json.loads(line)
        finally:
            process.terminate()
            process.communicate(timeout=30)


@pytest.fixture(params=[True, False], ids=["with a token", "without a token"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Elsewhere, bool]]:
    """Yield a namespace, and whether its broker has a token."""
    name = f"tm{os.getpid() % 100_000}"
    with ExitStack() as stack:
        stack.enter_context(namespace(name))
        port = free_port()
        settings = [f"tidemill.http.listener={HERE}:{port}", "tidemill.insecure.bind=true"]
        if request.param:
            (tmp_path / "token").write_text(TOKEN)
            (tmp_path / "token").chmod(0o600)
            settings.append(f"tidemill.http.token.file={tmp_path / 'token'}")
        stack.enter_context(broker(tmp_path / "data", *settings))
        yield Elsewhere(name, f"{HERE}:{port}"), request.param


def test_a_client_elsewhere_needs_the_token(elsewhere: tuple[Elsewhere, bool]) -> None:
    """
    Without the token, only health and metrics are served; the console is served to the broker's machine only.  The
    other rules hold for clients with the token, too.
    """
    place, has_token = elsewhere
    bearer = ("-H", f"Authorization: Bearer {TOKEN}")
    created = ("-d", '{"name": "mails"}', "-H", f"Content-Type: {JSON}")
    form = ("-d", '{"name": "form"}', "-H", "Content-Type: text/plain")

    found = {
        "live": place.status("/health/live"),
        "metrics": place.status("/metrics"),
        "console": place.status("/", *bearer),
        "no token": place.status("/v1/topics"),
        "no token, document": place.status("/openapi.json"),
        "no token, page": place.status("/docs"),
        "no token, write": place.status("/v1/topics", *created, method="POST"),
        "another token": place.status("/v1/topics", "-H", f"Authorization: Bearer {TOKEN[::-1]}"),
        "no bearer": place.status("/v1/topics", "-H", f"Authorization: Basic {TOKEN}"),
        "token": place.status("/v1/topics", *bearer),
        "token, write": place.status("/v1/topics", *created, *bearer, method="POST"),
        "token, unknown host": place.status("/v1/topics", *bearer, "-H", "Host: rebound.example"),
        "loopback as host": place.status("/v1/topics", "-H", "Host: 127.0.0.1"),
        "token, foreign origin": place.status("/v1/topics", *bearer, "-H", "Origin: http://evil.example"),
        "token, form": place.status("/v1/topics", *bearer, *form, method="POST"),
    }

    refused = 401 if has_token else 403
    assert found == {
        "live": 200,
        "metrics": 200,
        "console": 403,
        "no token": refused,
        "no token, document": refused,
        "no token, page": refused,
        "no token, write": refused,
        "another token": refused,
        "no bearer": refused,
        "token": 200 if has_token else 403,
        "token, write": 201 if has_token else 403,
        "token, unknown host": 403,
        "loopback as host": refused,
        "token, foreign origin": 403,
        "token, form": 415 if has_token else 403,
    }


class Page(BaseHTTPRequestHandler):
    """Another site, whose page has no script of its own; the test runs one in it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another site</title>")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def other_site() -> Iterator[int]:
    """Serve a page of another site, and yield its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


SEND = """async ([address, path, method, type, body]) => {
    const options = {method, body: body ?? undefined, headers: type ? {"Content-Type": type} : {}};
    try {
        const response = await fetch(address + path, options);
        return response.status + " " + (await response.text()).slice(0, 100);
    } catch (error) {
        return "blocked";
    }
}"""
SEND_BLINDLY = """async ([address, path, type, body]) => {
    await fetch(address + path, {method: "POST", mode: "no-cors", headers: {"Content-Type": type}, body});
}"""
LOAD = """url => new Promise(done => {
    const image = new Image();
    image.onload = image.onerror = done;
    image.src = url;
}).then(() => true)"""


def test_a_page_of_another_site_can_do_nothing(tmp_path: Path, other_site: int) -> None:
    """
    The page reads nothing, and its writes have no effect, however it sends them; nor does it help to let a name of its
    own resolve to this machine.
    """
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing: install the Debian package chromium")
    from playwright.sync_api import sync_playwright

    topic = '{"name": "stolen"}'
    with broker(tmp_path / "data", "tidemill.http.listener=127.0.0.1:0") as ready:
        address = ready["http"]
        own = HttpClient(address)
        assert 201 == own.send("POST", "/v1/topics", {"name": "mails", "partitions": 1}).status
        wait_until_known([own], "mails")
        with sync_playwright() as playwright:
            options = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP rebound.example 127.0.0.1"]
            chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
            with open_tab(chromium) as tab:
                tab.open(f"http://localhost:{other_site}/")

                def sent(path: str, method: str = "GET", kind: str | None = None, body: str | None = None) -> str:
                    answered: str = tab.page.evaluate(SEND, [f"http://{address}", path, method, kind, body])
                    return answered

                outcomes = [
                    sent("/v1/topics"),
                    sent("/v1/topics/mails/stream"),
                    sent("/openapi.json"),
                    sent("/v1/topics", "POST", JSON, topic),
                    sent("/v1/topics", "POST", "text/plain", topic),
                    sent("/v1/topics/mails", "DELETE"),
                ]
                tab.page.evaluate(LOAD, f"http://{address}/sandglass/topics/mails/0/thieves/image")
                for kind in ("text/plain", "application/x-www-form-urlencoded"):
                    tab.page.evaluate(SEND_BLINDLY, [f"http://{address}", "/v1/topics", kind, topic])
                tab.page.evaluate(
                    """([address, body]) => {
                        document.body.innerHTML =
                            `<form method=post enctype=text/plain action="${address}/v1/topics"><input name='${body}'>`;
                        document.forms[0].submit();
                    }""",
                    [f"http://{address}", '{"name": "stolen", "x": "'],
                )
                tab.page.wait_for_url(f"http://{address}/v1/topics")
                refused_form = tab.page.content()
            port = address.rpartition(":")[2]
            with open_tab(chromium) as tab:
                answered = tab.page.goto(f"http://rebound.example:{port}/v1/topics")
                rebound = None if answered is None else answered.status
            with open_tab(chromium) as tab:
                tab.open(f"http://{address}/docs")
                same_site = tab.page.evaluate(SEND, [f"http://{address}", "/health/live", "GET", None, None])
            chromium.close()
        topics = [it["name"] for it in own.ok("GET", "/v1/topics")["topics"]]
        groups = own.ok("GET", "/v1/groups")["groups"]

    assert ["blocked"] * 6 == outcomes
    assert "Origin" in refused_form or "Content-Type" in refused_form
    assert 403 == rebound
    assert "blocked" == same_site  # the page at /docs may connect to nothing, by its own policy
    assert "mails" in topics and "stolen" not in topics
    assert [] == groups  # to receive messages as Sandglass's clients do, a request without an Origin would be enough
