"""Settings of all tests, and quick starts of brokers even if Python may not write bytecode next to its sources.

With PYTHONDONTWRITEBYTECODE, every process would compile all modules that it imports, and the suite starts many
brokers.  Therefore the bytecode is written to a directory of this test run instead, unless `make install` has compiled
everything.  `java_options` does the same for Java processes.
"""

import gc
import os
import tempfile
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path

import hypothesis
import pytest

from tests.java_options import JAVA_OPTIONS

# Failed assertions show their values in modules that are not named test_*, too.
pytest.register_assert_rewrite("tests.fault", "tests.integration", "tests.simulation", "tests.unit")

# An example on a busy machine can take longer than Hypothesis permits by default.
hypothesis.settings.register_profile("tidemill", deadline=None)
hypothesis.settings.load_profile("tidemill")

COMPILED = Path(cache_from_source(str(Path(__file__).parents[1] / "src/tidemill/__init__.py")))
BYTECODE = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    os.environ["JAVA_TOOL_OPTIONS"] = " ".join(JAVA_OPTIONS)
    if COMPILED.exists() or "PYTHONPYCACHEPREFIX" in os.environ:
        return
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        config.stash[BYTECODE] = tempfile.TemporaryDirectory(prefix="tidemill-bytecode-", ignore_cleanup_errors=True)
        os.environ["PYTHONPYCACHEPREFIX"] = config.stash[BYTECODE].name


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let long tests begin first, although pytest-randomly has shuffled all: one that begins last leaves cores idle."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_unconfigure(config: pytest.Config) -> None:
    directory = config.stash.get(BYTECODE, None)
    if directory is not None:
        directory.cleanup()


@pytest.fixture(scope="session", autouse=True)
def _rare_collections() -> Iterator[None]:
    """
    Run the garbage collector rarely: tests drop millions of objects, few of them in cycles, and the collected items of
    a stage are many objects that stay.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()
