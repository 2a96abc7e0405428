"""The modules that are compiled with Cython, and the builds of them.

The name of a build contains a digest of its source, so a stale build, which was made from a different source, never
runs.  `tools/build_extension.py` builds the current sources and removes stale builds.  Without a build, a module runs
as plain Python, which is slow but correct.
"""

from hashlib import sha256
from importlib import import_module
from pkgutil import get_data
from types import ModuleType

COMPILED_MODULES = ("tidemill.batches.scan", "tidemill.timer.due_scan", "tidemill.timer.due_values")


def build_prefix(module: str) -> str:
    """Return what the names of all builds of a module begin with: `tidemill.batches._scan_`."""
    package, _, name = module.rpartition(".")
    return f"{package}._{name}_"


def build_name(module: str, source: bytes) -> str:
    """Return the name of the build of this source of a module."""
    return build_prefix(module) + sha256(source).hexdigest()[:16]


def compiled_build(module: str) -> ModuleType | None:
    """Return the build of a module's current source, or None if there is none.  Raise ImportError if loading fails."""
    package, _, name = module.rpartition(".")
    source = get_data(package, f"{name}.py")
    if source is None:
        return None
    build = build_name(module, source)
    try:
        return import_module(build)
    except ModuleNotFoundError as error:
        if error.name != build:
            raise
        return None
