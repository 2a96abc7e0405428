"""The page `/docs`: the OpenAPI document for people.

It is made of the document alone.  It has no script and loads nothing; its content security policy permits its own
style sheet only.
"""

import json
import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Final

from tidemill.http.v1.schema_rows import Schema, Schemas, notes_of, rows, type_of

ADDRESS: Final = "http://127.0.0.1:9080"  # the default of tidemill.http.listener
DEPTH_MAX: Final = 4  # deeper fields are not indented further
STREAM: Final = "text/event-stream"
REQUIRED: Final = " <b>required</b>"
PROBLEM: Final = "#/components/schemas/Problem"
SAMPLES: Final = {"topic": "mails", "group": "senders", "partition": "0"}
_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_CODE: Final = re.compile(r"`([^`]+)`")
Document = Mapping[str, Any]


def render(document: Document) -> tuple[str, dict[str, str]]:
    """Return the page and its headers."""
    style = files(__package__).joinpath("docs.css").read_text()
    digest = b64encode(sha256(style.encode()).digest()).decode()
    headers = {
        "content-security-policy": f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }
    return _page(document, style), headers


def _page(document: Document, style: str) -> str:
    sections: dict[str, list[tuple[str, str, Document]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            sections.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    info = document["info"]
    title = f"{info['title']} HTTP API"
    links = "".join(
        f'<li><a href="#{escape(tag)}">{escape(tag.capitalize())}</a><ul>{_links(listed)}</ul></li>'
        for tag, listed in sections.items()
    )
    body = "".join(
        f'<section aria-labelledby="{escape(tag)}"><h2 id="{escape(tag)}">{escape(tag.capitalize())}</h2>'
        f"{''.join(_operation(*one, document) for one in listed)}</section>"
        for tag, listed in sections.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p>Version {escape(info["version"])}. Programs read
<a href="/openapi.json">/openapi.json</a>.</p></header>
<nav aria-label="Paths"><ul>{links}<li><a href="#errors">Errors</a></li></ul></nav>
<main>{body}{_errors(document)}</main>
</body>
</html>
"""


def _links(listed: Iterable[tuple[str, str, Document]]) -> str:
    return "".join(
        f'<li><a href="#{escape(operation["operationId"])}">{_method(method)} <span>{_broken(path)}</span></a></li>'
        for method, path, operation in listed
    )


def _operation(method: str, path: str, operation: Document, document: Document) -> str:
    schemas, name = document["components"]["schemas"], escape(operation["operationId"])
    parts = [
        f'<article aria-labelledby="{name}"><h3 id="{name}">{_method(method)} <code>{_broken(path)}</code></h3>',
        f"<p>{_text(operation['summary'])}</p>",
        f'<pre tabindex="0"><code>{escape(curl(method, path, operation))}</code></pre>',
        _parameters(operation["parameters"]),
    ]
    if "requestBody" in operation:
        for content_type, content in operation["requestBody"]["content"].items():
            parts.append(_schema(f"Body, <code>{escape(content_type)}</code>", content["schema"], schemas, REQUIRED))
    for status, response in operation["responses"].items():
        if status < "400":
            parts.append(_response(status, response, schemas))
    return "".join((*parts, "</article>"))


def curl(method: str, path: str, operation: Document) -> str:
    """Return a command that sends an example of a request."""
    url = ADDRESS + _VARIABLE.sub(lambda found: SAMPLES.get(found[1], found[1]), path)
    parts = ["curl"]
    if STREAM in _types(operation):
        parts.append("-N")
    if "requestBody" not in operation:
        return " ".join([*parts, *([] if method == "GET" else ["-X", method]), url])
    if method != "POST":
        parts += ["-X", method]
    content_type, content = next(iter(operation["requestBody"]["content"].items()))
    parts += ["-H", shlex.quote(f"Content-Type: {content_type}"), url]
    body = json.dumps(content.get("example", {}))
    return f"{' '.join(parts)} \\\n  -d {shlex.quote(body)}"


def _types(operation: Document) -> list[str]:
    """Return the content types of the response."""
    return [it for status, one in operation["responses"].items() if status < "400" for it in one.get("content", ())]


def _parameters(parameters: Iterable[Document]) -> str:
    cells = [
        _row(0, it["name"], f"{type_of(it['schema'])}, in the {it['in']}", "", notes_of(it["schema"]))
        for it in parameters
    ]
    return _table("Parameters", cells) if cells else ""


def _response(status: str, response: Document, schemas: Schemas) -> str:
    contents = response.get("content")
    if not contents:
        return f"<h4>Response {status}</h4><p>{escape(response['description'])}, without a body.</p>"
    types = " or ".join(f"<code>{escape(it)}</code>" for it in contents)
    schema = next(iter(contents.values()))["schema"]
    return "".join(_schema(f"Response {status}, {types}", it, schemas) for it in schema.get("anyOf", [schema]))


def _schema(caption: str, schema: Schema, schemas: Schemas, required: str = "") -> str:
    """Return the fields of a schema; `required` marks those that must be given.  An empty schema is plain bytes."""
    if not schema:
        return f"<h4>{caption}</h4><p>Plain bytes.</p>"
    named = schemas[schema["$ref"].rpartition("/")[2]]
    lead = f"<p>{_text(named['description'])}</p>" if "description" in named else ""
    cells = [
        _row(it.depth, it.name, it.type, required if it.is_required else "", it.notes) for it in rows(schema, schemas)
    ]
    return _table(caption, cells, lead)


def _table(caption: str, cells: Iterable[str], lead: str = "") -> str:
    head = "<thead><tr><th>Name</th><th>Type</th><th>Meaning</th></tr></thead>"
    return f"<h4>{caption}</h4>{lead}<table>{head}<tbody>{''.join(cells)}</tbody></table>"


def _row(depth: int, name: str, type_name: str, mark: str, notes: str) -> str:
    return (
        f'<tr><th scope="row" class="d{min(depth, DEPTH_MAX)}"><code>{escape(name)}</code>{mark}</th>'
        f"<td>{escape(type_name)}</td><td>{_text(notes)}</td></tr>"
    )


def _errors(document: Document) -> str:
    schemas = document["components"]["schemas"]
    statuses = {
        status: response["description"]
        for operations in document["paths"].values()
        for operation in operations.values()
        for status, response in operation["responses"].items()
        if status >= "400"
    }
    listed = "".join(f"<dt>{status}</dt><dd>{_text(text)}</dd>" for status, text in sorted(statuses.items()))
    return (
        f'<section aria-labelledby="errors"><h2 id="errors">Errors</h2><article><dl>{listed}</dl>'
        f"{_schema('Body, <code>application/problem+json</code>', {'$ref': PROBLEM}, schemas)}</article></section>"
    )


def _method(method: str) -> str:
    return f'<b class="{method.lower()}">{method}</b>'


def _broken(path: str) -> str:
    """Return a path that may be broken into lines behind its slashes."""
    return escape(path).replace("/", "/<wbr>")


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
