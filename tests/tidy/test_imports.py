"""The graph of imports: no circles, and one door to each heavy library."""

from functools import cache

import grimp
import pytest

from tests.tidy.tree import files, imported_roots, named

DOORS = {
    "uvicorn": "src/tidemill/app/http_listener.py",
    "prometheus_client": "src/tidemill/telemetry/prometheus.py",
    "yaml": "src/tidemill/app/settings.py",
    "uvloop": "src/tidemill/runtime/event_loop.py",
}


@cache
def imports() -> dict[str, set[str]]:
    """Module → the modules of ours that it imports, at its top, later, or for types only."""
    graph = grimp.build_graph("tidemill", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_module_imports_itself_by_a_detour() -> None:
    """
    At any depth, imports for types and late imports counted: taking away what imports nothing that is left, nothing
    is left.
    """
    left = dict(imports())
    while leaves := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in leaves:
            del left[module]

    assert [] == sorted(left)


@pytest.mark.parametrize(("library", "door"), DOORS.items())
def test_a_library_has_one_door(library: str, door: str) -> None:
    """
    What is imported in one place can be replaced in one place.
    """
    assert [door] == [named(path) for path in files() if library in imported_roots(path)]
