"""Selects the implementation of `scan`: the compiled one if it was built from the current source, else plain Python.

    from tidemill.batches.native import scan

`scan_build` explains how stale builds are detected.
"""

from importlib import import_module
from pkgutil import get_data
from typing import TYPE_CHECKING

from tidemill.batches.scan_build import compiled_name

_PACKAGE = "tidemill.batches"

if TYPE_CHECKING:
    from types import ModuleType

    from tidemill.batches import scan as scan


def compiled_scan() -> "ModuleType | None":
    """Return the build of the current `scan.py`, or None if there is no build.  Raise ImportError if loading fails."""
    source = get_data(_PACKAGE, "scan.py")
    if source is None:
        return None
    name = f"{_PACKAGE}.{compiled_name(source)}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def is_compiled() -> bool:
    """Return whether `scan` is compiled.  If not, it is much slower (decision 15), and `app` logs a warning."""
    return _compiled is not None


_compiled = compiled_scan()
if not TYPE_CHECKING:
    scan = _compiled if _compiled is not None else import_module(f"{_PACKAGE}.scan")
