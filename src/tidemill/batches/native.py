"""Selects the implementation of `scan`: the compiled one if it was built from the current source, else plain Python.

    from tidemill.batches.native import scan

`compiled_build` explains how stale builds are detected.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tidemill.batches.compiled_build import compiled_build

NAME = "tidemill.batches.scan"

if TYPE_CHECKING:
    from tidemill.batches import scan as scan


def is_compiled() -> bool:
    """Return whether `scan` is compiled.  If not, it is much slower (decision 15), and `app` logs a warning."""
    return _compiled is not None


_compiled = compiled_build(NAME)
if not TYPE_CHECKING:
    scan = _compiled if _compiled is not None else import_module(NAME)
