"""Which form of `scan` runs: compiled, where a build of exactly this source is at hand, else plain Python.

    from tidemill.batches.native import scan

See `scan_build` for how a stale build is told.
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
    """The build of the `scan.py` that is there now, or None.  A build that does not load raises."""
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
    """False: batches are walked by the interpreter, some hundred times slower.  `app` says so once at start."""
    return _compiled is not None


_compiled = compiled_scan()
if not TYPE_CHECKING:
    scan = _compiled if _compiled is not None else import_module(f"{_PACKAGE}.scan")
