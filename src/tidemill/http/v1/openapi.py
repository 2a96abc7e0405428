"""The OpenAPI 3.1 document of `/v1`, made of the routes and of the types that check bodies and responses."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tidemill.http.answer import JSON_TYPE, PROBLEM_TYPE
from tidemill.http.v1.calls import Route

PATH: Final = "/openapi.json"
DESCRIPTION: Final = "Every broker answers every request. The page /docs shows this document to people."
_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_REFERENCE: Final = "#/components/schemas/{name}"
_PROBLEMS: Final = {
    "400": "The request is not as the path needs it.",
    "401": "The token is missing or wrong.",
    "403": "The client may not do this.",
    "404": "What the path names does not exist.",
    "405": "The method is not allowed here.",
    "408": "The body did not arrive in time.",
    "409": "The state of what the path names does not permit this.",
    "413": "The body is too large.",
    "415": "The type of the body is not accepted.",
    "503": "A broker cannot be asked now; try again after Retry-After seconds.",
}


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    error: str | None = None  # the name of Kafka's error


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """Return the OpenAPI document."""
    routes = list(routes)
    types = {Problem} | {it for route in routes for it in (route.body, route.response) if it is not None}
    named = sorted(types, key=lambda it: (it.__module__, it.__name__))
    schemas, components = msgspec.json.schema_components(named, ref_template=_REFERENCE)
    references = dict(zip(named, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, references)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidemill", "version": version, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route, references: dict[type[msgspec.Struct], dict[str, Any]]) -> dict[str, Any]:
    done: dict[str, Any] = {"description": HTTPStatus(route.status).phrase}
    if route.response is not None:
        types = route.media_types or (JSON_TYPE,)
        done["content"] = {it: {"schema": references[route.response]} for it in types}
    problem = {"content": {PROBLEM_TYPE: {"schema": references[Problem]}}}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.path.removeprefix("/v1/").strip("/").partition("/")[0]],
        "summary": route.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in _VARIABLE.findall(route.path)
            ),
            *_query_parameters(route),
        ],
        "responses": {str(route.status): done}
        | {status: {"description": text, **problem} for status, text in _PROBLEMS.items()},
    }
    if route.body is not None:
        content = {"schema": references[route.body]} | ({} if route.example is None else {"example": route.example})
        operation["requestBody"] = {"required": True, "content": {JSON_TYPE: content}}
    return operation


def _query_parameters(route: Route) -> Iterable[dict[str, Any]]:
    if route.query is None:
        return
    (_,), components = msgspec.json.schema_components([route.query])
    schema = components[route.query.__name__]
    for name, described in schema["properties"].items():
        yield {"name": name, "in": "query", "required": name in schema["required"], "schema": described}
