"""The OpenAPI 3.1 document of `/v1`, made of the routes and of the types that check bodies and responses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tidemill.http.answer import JSON_TYPE, PROBLEM_TYPE
from tidemill.http.v1.calls import Route

PATH: Final = "/openapi.json"
DESCRIPTION: Final = "Every broker answers every request. The page /docs shows this document to people."
_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_VARIABLES: Final = {"partition": {"type": "integer", "minimum": 0}}  # the others are names
_REFERENCE: Final = "#/components/schemas/{name}"
_PROBLEMS: Final = {
    "400": "The request is not as the path needs it.",
    "401": "The token is missing or wrong.",
    "403": "The client may not do this.",
    "404": "What the path names does not exist.",
    "405": "The method is not allowed here.",
    "408": "The body did not arrive in time.",
    "409": "The state of what the path names does not permit this.",
    "410": "Retention has removed what the request names, or its topic was deleted, and another one has the name.",
    "413": "The body is too large.",
    "415": "The type of the body is not accepted.",
    "422": "A batch has no readable records.",
    "431": "The head of the request is too large.",
    "503": "A broker cannot be asked now; try again after Retry-After seconds. With the error REQUEST_TIMED_OUT, a "
    "request may have had its effect.",
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
    operations: dict[tuple[str, str], list[Route]] = {}
    for route in routes:
        operations.setdefault((route.path, route.method), []).append(route)
    paths: dict[str, dict[str, Any]] = {}
    for (path, method), same in operations.items():
        paths.setdefault(path, {})[method.lower()] = _operation(same, references)
    first = [same[0] for same in operations.values()]
    for route in first:
        if links := _links(route, first):
            paths[route.path][route.method.lower()]["responses"][str(route.status)]["links"] = links
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


def _operation(routes: Sequence[Route], references: Mapping[type[msgspec.Struct], dict[str, Any]]) -> dict[str, Any]:
    """Return the operation of routes that differ in the types of their bodies."""
    first = routes[0]
    done: dict[str, Any] = {"description": HTTPStatus(first.status).phrase}
    schemas: dict[str, list[dict[str, Any]]] = {}
    for route in routes:
        if route.response is not None or route.media_types:
            schema = {} if route.response is None else references[route.response]
            for media_type in route.media_types or (JSON_TYPE,):
                listed = schemas.setdefault(media_type, [])
                if schema not in listed:
                    listed.append(schema)
    if schemas:
        done["content"] = {
            it: {"schema": listed[0] if len(listed) == 1 else {"anyOf": listed}} for it, listed in schemas.items()
        }
    responses = {str(first.status): done}
    if first.empty_status is not None:
        responses[str(first.empty_status)] = {"description": HTTPStatus(first.empty_status).phrase}
    problem = {"content": {PROBLEM_TYPE: {"schema": references[Problem]}}}
    operation: dict[str, Any] = {
        "operationId": first.name,
        "tags": [first.path.removeprefix("/v1/").strip("/").partition("/")[0]],
        "summary": " ".join(route.summary for route in routes),
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": _VARIABLES.get(name, {"type": "string"})}
                for name in _VARIABLE.findall(first.path)
            ),
            *(parameter for route in routes for parameter in _query_parameters(route)),
        ],
        "responses": responses | {status: {"description": text, **problem} for status, text in _PROBLEMS.items()},
    }
    operation["responses"]["503"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    content = {
        it.body_type: {"schema": {} if it.body is None else references[it.body]}
        | ({} if it.example is None else {"example": it.example})
        for it in routes
        if it.body is not None or it.body_type != JSON_TYPE
    }
    if content:
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _links(route: Route, routes: Iterable[Route]) -> dict[str, Any]:
    """Return what can follow: the operations that need what the response gives, with the values that are known then."""
    own = set(_VARIABLE.findall(route.path))
    links = {}
    for other in routes:
        needed = _VARIABLE.findall(other.path)
        members = _members(other.body)
        queried = _members(other.query)
        if not route.gives.keys() & {*needed, *members} or other is route:
            continue
        given = {name: f"$response.body#{pointer}" for name, pointer in route.gives.items()}
        values = {name: f"$request.path.{name}" for name in own} | given
        link: dict[str, Any] = {
            "operationId": other.name,
            "parameters": {f"path.{name}": values[name] for name in needed if name in values}
            | {f"query.{name}": given[name] for name in queried if name in given},
        }
        if body := {name: [given[name]] if members[name] else given[name] for name in members if name in given}:
            link["requestBody"] = body
        links[other.name] = link
    return links


def _members(body: type[msgspec.Struct] | None) -> dict[str, bool]:
    """Return the names of the members of a body, and whether each is a list."""
    if body is None:
        return {}
    (_,), components = msgspec.json.schema_components([body])
    return {name: it.get("type") == "array" for name, it in components[body.__name__]["properties"].items()}


def _query_parameters(route: Route) -> Iterable[dict[str, Any]]:
    if route.query is None:
        return
    (_,), components = msgspec.json.schema_components([route.query])
    schema = components[route.query.__name__]
    for name, described in schema["properties"].items():
        yield {"name": name, "in": "query", "required": name in schema["required"], "schema": described}
