"""The console as an ASGI application: headers, methods, unknown paths."""

import json
import re
from importlib.resources import files
from math import nan

import pytest

from tests.unit.console.console_world import View, get, shard
from tidemill.console.application import PAGES

PATHS = [path.replace("{topic}", "orders").replace("{partition:int}", "0") for path in PAGES]


@pytest.mark.parametrize("path", [*PATHS, "/charts.json", "/static/console.js", "/missing"])
def test_every_answer_forbids_inline_code_and_foreign_files(path: str) -> None:
    """
    The content security policy allows only files of this server, so nothing that a record contains can be executed or
    loaded.
    """
    headers = get(View(), path).headers

    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert ("nosniff", "no-referrer") == (headers["x-content-type-options"], headers["referrer-policy"])


@pytest.mark.parametrize("path", PATHS)
def test_pages_have_no_inline_code(path: str) -> None:
    """
    The pages contain no inline scripts, inline styles or event handlers, because the policy would block them.
    """
    text = get(View(shard(1)), path).text

    assert [] == re.findall(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*\ssrc=)", text)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_the_console_changes_nothing(path: str, method: str) -> None:
    """
    The console is read-only and accepts only GET and HEAD.
    """
    assert 405 == get(View(shard(1)), path, method=method).status


@pytest.mark.parametrize(
    "path", ["/missing", "/topics/missing", "/topics/orders/7", "/topics/orders/x", "/static/../application.py"]
)
def test_what_does_not_exist_is_not_found(path: str) -> None:
    """
    The page of something that does not exist has status 404.
    """
    answer = get(View(shard(1)), path)

    assert 404 == answer.status
    assert "text/html" in answer.headers["content-type"]


@pytest.mark.parametrize("path", ["/missing", "/topics/missing", "/topics/orders/x"])
def test_a_page_that_does_not_exist_has_links(path: str) -> None:
    """
    The page for an unknown URL has links to all lists, so that a user who has mistyped a URL gets there with one click.
    """
    text = get(View(shard(1)), path).text

    assert all(f'href="{target}"' in text for target in ("/", "/topics", "/groups", "/brokers", "/shards"))


def test_a_group_is_found_like_a_topic() -> None:
    """
    The URL of a group's page has the group id as a parameter.  A URL of the form that topics have redirects to that
    page, whatever characters the id contains.
    """
    answer = get(View(shard(1)), "/groups/a%20b/c%26d")

    assert (307, "/group?id=a+b%2Fc%26d") == (answer.status, answer.headers["location"])


def test_there_are_no_pages_before_the_broker_knows_its_cluster() -> None:
    """
    While a broker is waiting to join, its console says so instead of showing an empty cluster.
    """
    answer = get(None, "/")

    assert (503, True) == (answer.status, "does not know its cluster yet" in answer.text)


def test_pages_are_not_kept_by_browsers() -> None:
    """
    Browsers store no page, so that a page shows the current state even after "back".  They may store the console's
    static files, but must ask before each use whether those have changed.
    """
    stored = [get(View(), path).headers["cache-control"] for path in ("/", "/static/console.css")]

    assert ["no-store", "no-cache"] == stored


def test_charts_are_columns_of_numbers() -> None:
    """
    The charts get their samples as JSON, which cannot represent NaN, so unknown values are null.
    """
    view = View()
    view.columns = {"time_s": [1.0, 2.0], "latency_ms_p50": [nan, 0.12345]}

    answer = get(view, "/charts.json")

    assert {"time_s": [1.0, 2.0], "latency_ms_p50": [None, 0.123]} == json.loads(answer.text)


def test_every_vendored_library_has_its_licence() -> None:
    """
    Files of other projects are in folders whose names contain the version, together with their licences.
    """
    folders = [it for it in files("tidemill.console").joinpath("static", "vendor").iterdir() if it.is_dir()]

    assert ["htmx-2.0.11", "idiomorph-0.8.0", "uplot-1.6.32"] == sorted(folder.name for folder in folders)
    assert all(folder.joinpath("LICENSE").is_file() for folder in folders)
