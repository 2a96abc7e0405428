"""Selects the implementation of `due_scan` and `due_values`: compiled if there is a build of the current source, else
plain Python.

from tidemill.timer.native import due_scan, due_values
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tidemill.batches.compiled_build import compiled_build

_SCAN = "tidemill.timer.due_scan"
_VALUES = "tidemill.timer.due_values"

if TYPE_CHECKING:
    from tidemill.timer import due_scan as due_scan
    from tidemill.timer import due_values as due_values
else:
    due_scan = compiled_build(_SCAN) or import_module(_SCAN)
    due_values = compiled_build(_VALUES) or import_module(_VALUES)
