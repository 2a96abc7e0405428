"""Fixtures that run a test with both implementations of `scan`, compiled and plain Python."""

import warnings
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import settings

from tidemill.batches import arrow, builder, check, native, records, row_encoder
from tidemill.batches import scan as plain
from tidemill.batches.compiled_build import compiled_build

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401  kafka-python reads its schemas in a deprecated way when it is first imported

settings.register_profile("tidemill", deadline=None)  # a slow example is not a failure: CPU cores are shared
settings.load_profile("tidemill")


@pytest.fixture(scope="module", params=["compiled", "plain"])
def scan(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Yield one implementation of `scan`; all of `batches` uses it while the test runs."""
    form = compiled_build(native.NAME) if request.param == "compiled" else plain
    if form is None:
        pytest.skip("there is no build of scan.py: no C compiler, or tools/build_extension.py has not run")
    with pytest.MonkeyPatch.context() as patch:
        for module in (arrow, builder, check, records, row_encoder):
            patch.setattr(module, "scan", form)
        patch.setattr(check, "_check_records", form.check_records)
        yield form
