"""Fixtures that run a test with both implementations of `due_scan` or `due_values`, compiled and plain Python."""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from tidemill.batches.compiled_build import compiled_build
from tidemill.timer import due_index, due_merge, due_refill, due_run, due_window, normalize, unsorted_rows

both_forms = pytest.fixture(scope="module", params=["compiled", "plain"])


@both_forms
def due_scan(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Yield one implementation of `due_scan`; all of the index uses it while the test runs."""
    form = _form("tidemill.timer.due_scan", request)
    with pytest.MonkeyPatch.context() as patch:
        for module in (due_index, due_merge, due_refill, due_run, due_window, unsorted_rows):
            patch.setattr(module, "due_scan", form)
        yield form


@both_forms
def due_values(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Yield one implementation of `due_values`; `normalize` uses it, and that of `scan`, while the test runs."""
    form = _form("tidemill.timer.due_values", request)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalize, "due_values", form)
        patch.setattr(normalize, "scan", _form("tidemill.batches.scan", request))
        yield form


def _form(module: str, request: pytest.FixtureRequest) -> ModuleType:
    form = compiled_build(module) if request.param == "compiled" else import_module(module)
    if form is None:
        pytest.skip(f"there is no build of {module}: no C compiler, or tools/build_extension.py has not run")
    return form
