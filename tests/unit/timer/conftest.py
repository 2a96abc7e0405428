"""A fixture that runs a test with both implementations of `due_scan`, compiled and plain Python."""

from collections.abc import Iterator
from types import ModuleType

import pytest

from tidemill.batches.compiled_build import compiled_build
from tidemill.timer import due_index, due_merge, due_refill, due_run, due_window, unsorted_rows
from tidemill.timer import due_scan as plain


@pytest.fixture(scope="module", params=["compiled", "plain"])
def due_scan(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Yield one implementation of `due_scan`; all of the index uses it while the test runs."""
    form = compiled_build("tidemill.timer.due_scan") if request.param == "compiled" else plain
    if form is None:
        pytest.skip("there is no build of due_scan.py: no C compiler, or tools/build_extension.py has not run")
    with pytest.MonkeyPatch.context() as patch:
        for module in (due_index, due_merge, due_refill, due_run, due_window, unsorted_rows):
            patch.setattr(module, "due_scan", form)
        yield form
