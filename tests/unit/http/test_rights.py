"""What each route does to which resources."""

import re

import pytest

from tidemill.http.v1.application import ROUTES
from tidemill.http.v1.calls import Route
from tidemill.http.v1.rights import Operation
from tidemill.http.v1.sandglass import ROUTES as SANDGLASS

READING = {Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}


@pytest.mark.parametrize("route", [*ROUTES, *SANDGLASS], ids=lambda route: f"{route.method} {route.path}")
def test_a_route_names_a_right_for_each_resource_in_its_path(route: Route) -> None:
    """
    A path with a topic or a group needs a right on it, and a GET needs only rights that change nothing.
    """
    in_path = {"topic", "group"} & set(re.findall(r"\{(\w+)\}", route.path))

    assert in_path <= {str(right.resource) for right in route.access}
    assert route.access
    if route.method == "GET":
        assert {right.operation for right in route.access} <= READING
