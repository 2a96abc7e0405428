"""Settings of all tests, and quick starts of brokers even if Python may not write bytecode next to its sources.

With PYTHONDONTWRITEBYTECODE, every process would compile all modules that it imports, and the suite starts many
brokers.  Therefore the bytecode is written to a directory of this test run instead.  `java_options` does the same for
Java processes.
"""

import os
import tempfile

import hypothesis
import pytest

from tests.java_options import JAVA_OPTIONS

# Failed assertions show their values in modules that are not named test_*, too.
pytest.register_assert_rewrite("tests.fault", "tests.integration", "tests.simulation", "tests.unit")

# An example on a busy machine can take longer than Hypothesis permits by default.
hypothesis.settings.register_profile("tidemill", deadline=None)
hypothesis.settings.load_profile("tidemill")

BYTECODE = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    os.environ["JAVA_TOOL_OPTIONS"] = " ".join(JAVA_OPTIONS)
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", "") and "PYTHONPYCACHEPREFIX" not in os.environ:
        config.stash[BYTECODE] = tempfile.TemporaryDirectory(prefix="tidemill-bytecode-", ignore_cleanup_errors=True)
        os.environ["PYTHONPYCACHEPREFIX"] = config.stash[BYTECODE].name


def pytest_unconfigure(config: pytest.Config) -> None:
    directory = config.stash.get(BYTECODE, None)
    if directory is not None:
        directory.cleanup()
