"""The page `/docs`."""

import re
from base64 import b64encode
from hashlib import sha256
from html import unescape

import msgspec
import pytest

from tidemill.http.v1 import docs_page, openapi
from tidemill.http.v1.application import ROUTES
from tidemill.http.v1.calls import Call, Route

DOCUMENT = openapi.document(ROUTES, "1.2.3")


class Tree(msgspec.Struct):
    """Contains <itself> & `code`."""

    name: str
    children: "list[Tree]"


async def grow(_: Call) -> None:
    """Do nothing."""


GROW = Route(
    method="PUT",
    path="/v1/trees/{tree}",
    access=(),
    handler=grow,
    body=Tree,
    example={"name": "it's <old>", "children": []},
    response=None,
    status=204,
    summary="Grow a <tree>.",
)


def article(text: str, name: str) -> str:
    """Return the part of the page about one operation."""
    return re.findall(rf'<article aria-labelledby="{name}">.*?</article>', text, re.DOTALL)[0]


def test_every_operation_is_shown() -> None:
    """
    With its path, its parameters, its fields, and a command that sends it.
    """
    text, _ = docs_page.render(DOCUMENT)
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            shown = unescape(re.sub(r"<wbr>", "", article(text, operation["operationId"])))
            assert f'<b class="{method}">{method.upper()}</b> <code>{path}</code>' in shown
            assert operation["summary"] in shown.replace("<code>", "`").replace("</code>", "`")
            assert all(f"<code>{it['name']}</code>" in shown for it in operation["parameters"])
            assert docs_page.curl(method.upper(), path, operation) in shown
            assert f'href="#{operation["operationId"]}"' in text


def test_the_page_loads_nothing() -> None:
    """
    It has no script, its only links are within this API, and its policy permits only its style sheet.
    """
    text, headers = docs_page.render(DOCUMENT)

    links = set(re.findall(r'(?:src|href|action|srcset|poster|data)="([^"]*)"', text))
    assert {"/openapi.json"} == {it for it in links if not it.startswith("#")}
    assert not re.search(r"<(script|link|img|iframe|object|embed|form)\b|@import|url\(|\son\w+=|\sstyle=", text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}';" in headers["content-security-policy"]


def test_texts_are_escaped() -> None:
    """
    A type that contains itself is shown once.
    """
    document = openapi.document([GROW], "<1>")

    text, _ = docs_page.render(document)

    assert "Version &lt;1&gt;." in text
    shown = article(text, GROW.name)
    assert "<p>Grow a &lt;tree&gt;.</p>" in shown
    assert "<p>Contains &lt;itself&gt; &amp; <code>code</code>.</p>" in shown
    assert 2 == shown.count("<b>required</b>")
    assert unescape(shown).count("""-d '{"name": "it'"'"'s <old>", "children": []}'""") == 1


@pytest.mark.parametrize("route", [it for it in ROUTES if it.body is not None], ids=lambda route: route.name)
def test_every_body_has_an_example(route: Route) -> None:
    """
    The path takes it.
    """
    assert route.example is not None and route.body is not None
    assert isinstance(msgspec.json.decode(msgspec.json.encode(route.example), type=route.body), route.body)
