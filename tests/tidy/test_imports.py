"""The graph of imports has no cycles, and each heavy library is imported in one place."""

from functools import cache

import grimp
import pytest

from tests.tidy.tree import files, imported_roots, named

IMPORT_SITES = {
    "uvicorn": "src/tidemill/app/http_server.py",
    "jinja2": "src/tidemill/console/site.py",
    "prometheus_client": "src/tidemill/telemetry/prometheus.py",
    "yaml": "src/tidemill/app/settings.py",
    "matplotlib": "src/tidemill/spark/pipelines/stats/drawing.py",
    "cronsim": "src/tidemill/timer/cron_dates.py",
    "uvloop": "src/tidemill/runtime/event_loop.py",
}
SPARK_IMPORTS = {
    "tidemill.spark", "tidemill.arrow", "tidemill.columnar", "tidemill.client", "tidemill.batches", "tidemill.model",
}  # fmt: skip


@cache
def imports() -> dict[str, set[str]]:
    """
    Return, for each module, the modules of this package that it imports at the top, inside functions, or for types
    only.
    """
    graph = grimp.build_graph("tidemill", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_there_is_no_cycle_of_imports() -> None:
    """
    No imports form a cycle, including those for types and those inside functions.  The test repeatedly removes the
    modules that import none of the remaining ones; any that are left over form a cycle.
    """
    left = dict(imports())
    while leaves := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in leaves:
            del left[module]

    assert [] == sorted(left)


@pytest.mark.parametrize(("library", "site"), IMPORT_SITES.items())
def test_a_library_has_one_import_site(library: str, site: str) -> None:
    """
    A library that is imported in one place can be replaced in one place.
    """
    assert [site] == [named(path) for path in files() if library in imported_roots(path)]


def test_spark_imports_only_the_client_batches_and_the_model() -> None:
    """
    `spark` and `arrow`, and `columnar` below them, directly import only `client`, `batches` and `model`; what these
    import in turn is not restricted here.
    """
    readers = ("tidemill.spark", "tidemill.arrow", "tidemill.columnar")
    spark = [module for module in imports() if _package(module) in readers]
    imported = {(module, other) for module in spark for other in imports()[module]}

    assert imported
    assert [] == sorted((module, other) for module, other in imported if _package(other) not in SPARK_IMPORTS)


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])
